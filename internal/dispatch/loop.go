// Package dispatch is the one loop that owns scheduling. It takes all inputs that wait, lets sched decide them, has the
// store write every resulting event in one transaction, and only then acts: it sends commands to sessions, tells
// watchers and answers callers. What it has answered is stored. The server calls it. It decides nothing itself, waits
// for nobody but the store, and keeps no state that a replay of the store would not give again.
package dispatch

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
	"github.com/towpath/towpath/internal/store"
)

// Store is what the loop remembers with. A *store.DB is one.
type Store interface {
	Commit(ctx context.Context, b *store.Batch) error
	Replay(ctx context.Context, owner string) iter.Seq2[towpath.NumberedEvent, error]
	Probe(ctx context.Context, owner string) error
	Reader
}

// Reader is what callers of the loop read, and where they take numbers, on their own goroutines.
type Reader interface {
	NextBuild(ctx context.Context, r store.Reservation) (towpath.BuildNumber, error)
	Build(ctx context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error)
	Events(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error]
	Estimates(ctx context.Context, project, job string, atoms []string, now time.Time) (map[string]towpath.Estimate, error)
	PackLogs(chunks []store.LogChunk)
	FixedCost(ctx context.Context, project, job string) (time.Duration, error)
	Tail(n towpath.BuildNumber, q towpath.LogQuery) *store.Tail
}

// Sessions passes commands on to agents. Its methods never wait. An error of Send means that the session is in trouble; what it
// had is requeued when its offer or its lease runs out.
type Sessions interface {
	Send(cmd towpath.Command) error
	Refuse(id towpath.SessionID, reason string)
	Drain(id towpath.SessionID)
}

// Config is what a Loop is made of. Store, Sessions, Owner and Logger are needed.
type Config struct {
	Store    Store
	Sessions Sessions
	Owner    string // registered in the store; its unfinished builds are replayed
	Sched    sched.Config
	Logger   *slog.Logger
}

const (
	queue       = 256       // requests that may wait; further callers wait to put theirs in
	roundInputs = 4096      // inputs decided in one round at most, so that no transaction lasts long
	roundLogs   = 256 << 10 // bytes of logs stored in one round at most, so that they delay no decision for long
	firstRetry  = 100 * time.Millisecond
	lastRetry   = 5 * time.Second
)

// Loop is the owner of the scheduling state.
type Loop struct {
	cfg      Config
	log      *slog.Logger
	requests chan *request
	logs     chan *logRequest
	ended    chan struct{} // closed when Run has returned
	index    index
	hub      hub
	trouble  trouble

	// The goroutine of Run owns what follows.
	state   *sched.State
	seqs    map[towpath.BuildNumber]int64 // of the last stored event of each stream
	winding map[towpath.BuildNumber]bool  // finished builds that sched still holds
	retry   time.Duration                 // how long the next standby waits first; 0 once a write succeeded
}

// request is inputs of one caller, in order, and where the answers go: room for one slice is always there.
type request struct {
	inputs []towpath.Input
	answer chan []error
}

// logRequest is log chunks of one session.
type logRequest struct {
	session towpath.SessionID
	chunks  []store.LogChunk
	answer  chan []error
}

// New makes a Loop. Nothing happens before Run.
func New(cfg Config) *Loop {
	return &Loop{
		cfg: cfg, log: cfg.Logger,
		requests: make(chan *request, queue), logs: make(chan *logRequest, queue), ended: make(chan struct{}),
		index: newIndex(), hub: newHub(),
	}
}

// Run replays the owner's builds and then decides until ctx ends, which is no error. It may be called once.
//
// It owns the scheduling state. Requests, logs and the earliest deadline wake it; ctx ends it, or a log of events that
// does not fit together, or an error of the store that will not pass.
func (l *Loop) Run(ctx context.Context) error {
	defer close(l.ended)
	if err := l.reload(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("begin dispatching: %w", err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if at, ok := l.state.Next(); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		var r round
		select {
		case <-ctx.Done():
			return nil
		case q := <-l.requests:
			r.add(q)
		case q := <-l.logs:
			r.addLogs(q)
		case <-timer.C:
		}
		l.gather(&r)
		if err := l.decide(ctx, &r); err != nil {
			if err := l.standby(ctx, err); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// gather adds what else waits, without waiting for more.
func (l *Loop) gather(r *round) {
	for r.inputs < roundInputs {
		select {
		case q := <-l.requests:
			r.add(q)
			continue
		default:
		}
		break
	}
	for r.bytes < roundLogs {
		select {
		case q := <-l.logs:
			r.addLogs(q)
			continue
		default:
		}
		break
	}
}
