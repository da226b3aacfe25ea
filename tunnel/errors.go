package tunnel

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var (
	// ErrClosed is the answer of a registry that has stopped.
	ErrClosed = errors.New("the registry has stopped")
	// ErrBusy is the answer of a registry that has too many callers waiting for one agent already.
	ErrBusy = errors.New("too many callers wait for this agent already")
	// ErrSilent is why a connection ended whose other end answered no ping.
	ErrSilent = errors.New("no answer to a ping: the other end is frozen, or cut off without notice")
	// ErrBlocked is why a connection ended whose other end took no byte for [Limits.WriteTimeout].
	ErrBlocked = errors.New("the other end has stopped reading")
	// ErrStalled is why a single stream was reset: for [Limits.StallTimeout] nobody took what was sent on it.
	ErrStalled = errors.New("the stream was reset: nobody took what was sent on it")
	// ErrNotTaken means that the agent was leaving and did not begin with the request: it may be sent again, by another
	// tunnel, whatever it does.
	ErrNotTaken = errors.New("the agent was leaving and did not take the request")
)

// LostError is the error of a request whose connection ended. The agent may have begun with it.
type LostError struct {
	ID    string // of the agent
	Cause error
}

func (e *LostError) Error() string { return fmt.Sprintf("lost agent %q: %v", e.ID, e.Cause) }

// Unwrap gives the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// Code says in one word why a server refuses an agent, or ends its tunnel.
type Code string

// The codes that this package itself knows; a server may use others.
const (
	CodeUnauthenticated Code = "unauthenticated" // final
	CodeForbidden       Code = "forbidden"       // final
	CodeRevoked         Code = "revoked"         // final
	CodeIncompatible    Code = "incompatible"    // final: the two do not speak the same protocol
	CodeNoUpgrade       Code = "no_upgrade"      // the request for the upgrade was lost on the way
	CodeDraining        Code = "draining"        // this server is about to go
	CodeTooMany         Code = "too_many"        // the agent has too many connections already
	CodeUnavailable     Code = "unavailable"
)

// RefusedError is the server's answer to an agent that it does not want, or does not want any more. An Authenticate function
// returns one to say more than no; [Dialer.Dial] returns it on the other side as it was given.
type RefusedError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // one line, for people: what was found, and what to do
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the server (%s): %s", e.Code, e.Message)
}

// Final reports whether it is of no use to ask again without a change.
func (e *RefusedError) Final() bool {
	switch e.Code {
	case CodeUnauthenticated, CodeForbidden, CodeRevoked, CodeIncompatible:
		return true
	default:
		return false
	}
}

func (e *RefusedError) status() int {
	switch e.Code {
	case CodeUnauthenticated:
		return http.StatusUnauthorized
	case CodeForbidden, CodeRevoked:
		return http.StatusForbidden
	case CodeIncompatible, CodeNoUpgrade:
		return http.StatusUpgradeRequired
	case CodeTooMany:
		return http.StatusTooManyRequests
	default:
		return http.StatusServiceUnavailable
	}
}

// streamError has the shape of net/http's own error for a reset stream, which errors.As converts to it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset (%d)", e.StreamID, e.Code)
}

const refusedStream = 7 // REFUSED_STREAM of RFC 9113: not processed at all

// notTaken reports whether err says that the request was not begun. The errors in question are net/http's own and have
// no names; a test holds this list to them.
func notTaken(err error) bool {
	if se := (streamError{}); errors.As(err, &se) {
		return se.Code == refusedStream
	}
	for _, text := range []string{"client conn not usable", "graceful shutdown GOAWAY"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
