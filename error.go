package towpath

import (
	"errors"
	"fmt"
)

// Code classifies an error for people outside. It is mapped once to an exit code and once to an HTTP status.
type Code string

// The codes.
const (
	CodeUsage           Code = "usage"           // the command line
	CodeConfig          Code = "config"          // towpath.yaml or a setting
	CodeNotFound        Code = "not_found"       // a build, job or atom that does not exist
	CodeConflict        Code = "conflict"        // it exists, and its state does not allow this
	CodeForbidden       Code = "forbidden"       // known, and not allowed
	CodeUnauthenticated Code = "unauthenticated" // not known
	CodeUnavailable     Code = "unavailable"     // try again later: disk full, database away, server stopping
	CodeSessionLost     Code = "session_lost"    // this session was declared lost; it never comes back
	CodeInternal        Code = "internal"        // a fault of Towpath
	CodeCanceled        Code = "canceled"
)

// Error is an error that people outside may see. Message is one line that says what was tried, what was found and what
// to do; it never carries a secret. Err, if set, is the cause, for the log.
type Error struct {
	Code    Code
	Message string
	Err     error
}

// Errorf makes an Error. A %w in format sets its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, CodeInternal if there is none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
