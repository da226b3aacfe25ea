// Package session is the server's side of live agents. Hub.Serve speaks with one agent over one connection: it turns what
// the agent says into inputs and log chunks for a Sink, acknowledges them once the sink has them, and passes commands on.
// The server calls it. It never decides anything, never lets one agent delay another, and keeps nothing: what is
// not acknowledged is the agent's to repeat.
package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/towpath/towpath"
)

// Sink takes what agents say. Its methods may be called from many goroutines, and wait until what they were given is stored.
type Sink interface {
	// Inputs takes inputs of one session, in order, and returns nil or one error for each. An error of CodeUnavailable is
	// tried again, one of CodeSessionLost ends the session, one of CodeInternal cuts it, and any other is a refusal that
	// changed nothing.
	Inputs(ctx context.Context, ins []towpath.Input) []error
	// Logs takes pieces of logs, those of one stream in order. An error of CodeUnavailable is tried again; any other loses
	// the pieces.
	Logs(ctx context.Context, chunks []LogChunk) error
}

// LogChunk is a piece of the log of a unit of an attempt, or of the attempt itself (Unit is -1). Offset counts what the
// stream had before, of which the last Gap bytes before Data were left out.
type LogChunk struct {
	Session towpath.SessionID
	Attempt towpath.AttemptID
	Unit    int
	Offset  int64
	Data    []byte
	Gap     int64
}

// Config is what a Hub needs. All but Sink and Logger have a default.
type Config struct {
	Sink   Sink
	Logger *slog.Logger

	Ping       time.Duration // how often a silent connection is probed; 0: never, as in one process
	HelloLimit time.Duration // until an agent's hello; 10 s
	WriteLimit time.Duration // until an agent took what it was sent; 15 s
	EndLimit   time.Duration // until an agent that said goodbye, or was refused, hangs up; 5 s
	Mailbox    int           // commands that may wait for an agent to take them; 1,024
	Inbox      int           // bytes of messages that may wait for the sink; 64 MiB
}

func (c Config) withDefaults() Config {
	defaultTo(&c.HelloLimit, 10*time.Second)
	defaultTo(&c.WriteLimit, 15*time.Second)
	defaultTo(&c.EndLimit, 5*time.Second)
	defaultTo(&c.Mailbox, 1024)
	defaultTo(&c.Inbox, 64<<20)
	return c
}

func defaultTo[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Hub knows the live sessions and hands commands to them.
type Hub struct {
	cfg Config

	mu   sync.Mutex
	live map[towpath.SessionID]*session // +checklocks:mu
}

// NewHub makes a Hub without sessions.
func NewHub(cfg Config) *Hub {
	return &Hub{cfg: cfg.withDefaults(), live: make(map[towpath.SessionID]*session)}
}

// Send puts cmd into its session's mailbox. It never waits. A session whose mailbox is full is cut, for its agent takes
// nothing; that, and a session that is not here, is an error of CodeSessionLost.
func (h *Hub) Send(cmd towpath.Command) error {
	var id towpath.SessionID
	switch cmd := cmd.(type) {
	case towpath.Offer:
		id = cmd.Session
	case towpath.Stop:
		id = cmd.Session
	case towpath.Recall:
		id = cmd.Session
	default:
		return fmt.Errorf("send %T: no agent is told that", cmd)
	}
	s := h.find(id)
	if s == nil {
		return towpath.Errorf(towpath.CodeSessionLost, "send to session %s: it is not connected", id)
	}
	return s.send(cmd)
}

// Refuse tells a session's agent that the session was declared lost, and why, and ends it. It never waits.
func (h *Hub) Refuse(id towpath.SessionID, reason string) {
	if s := h.find(id); s != nil {
		s.box.refuse(towpath.Errorf(towpath.CodeSessionLost, "%s", reason))
	}
}

// Drain asks a session's agent to leave when its work is done. It never waits.
func (h *Hub) Drain(id towpath.SessionID) {
	if s := h.find(id); s != nil {
		s.box.drain()
	}
}

func (h *Hub) find(id towpath.SessionID) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[id]
}

func (h *Hub) enter(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[s.id] = s
}

func (h *Hub) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, s.id)
}

func newID() towpath.SessionID { return towpath.SessionID(strings.ToLower(rand.Text())) }
