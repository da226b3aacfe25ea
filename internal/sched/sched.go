// Package sched is the one decider: a state, and inputs that give events or a refusal. The dispatch loop owns the State
// and calls it from one goroutine. It does no I/O, reads no clock and starts nothing; time comes with each input, and
// chance only as the ids of new attempts, which are in the events.
//
// Step decides one input and applies its events to the state at once, before they are stored: a caller whose write
// fails drops the State and replays the stored events with Apply, in the order in which they were written across all
// streams, and then calls Resume. Replay gives the same state, leases aside. A Tick is best handled after the other
// inputs that wait with it, so that a session which was heard from is not lost for the driver's own delay.
package sched

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// Config holds what the decider is given once. The zero value works. Replay needs the same values.
type Config struct {
	Lease       time.Duration // how long a session lives without being heard from; 0: 16 s
	OfferExpiry time.Duration // how long an offer may stay unstarted; 0: 5 s
	StopGrace   time.Duration // from telling an attempt to end until it is abandoned; 0: 20 s
	RecallWait  time.Duration // how long a recall waits for its answer; 0: 2 s
	Late        time.Duration // a Tick that is later than this says that the driver itself slept; 0: 1 s
	NewID       func() string // a new attempt's id, never the same twice; nil: random text
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Lease, 16*time.Second)
	def(&c.OfferExpiry, 5*time.Second)
	def(&c.StopGrace, 20*time.Second)
	def(&c.RecallWait, 2*time.Second)
	def(&c.Late, time.Second)
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	return c
}

// State is everything that is known of live sessions and unfinished builds. One goroutine at a time may use it.
type State struct {
	cfg      Config
	sessions map[towpath.SessionID]*session
	order    []*session // the live ones, in the order of their hellos
	ended    ended
	builds   map[towpath.BuildNumber]*build
	live     []*build // those in memory, by number
	attempts map[towpath.AttemptID]*attempt
	fixed    map[string]time.Duration // learned fixed cost of a subjob, by class of session
	due      dueHeap
	seq      uint64

	stepped time.Time // when the last step was; not part of the events

	// Of the step under way.
	out     []towpath.Event
	touched []*build
	dirty   bool // something may be offered that could not before
	fail    error

	bug bug // a mistake made on purpose, to test the simulation
}

// New returns the empty state.
func New(cfg Config) *State {
	return &State{
		cfg:      cfg.withDefaults(),
		sessions: map[towpath.SessionID]*session{},
		builds:   map[towpath.BuildNumber]*build{},
		attempts: map[towpath.AttemptID]*attempt{},
		fixed:    map[string]time.Duration{},
		ended:    ended{reason: map[towpath.SessionID]string{}},
	}
}

// Step decides one input. It returns the events, which are already applied, or a refusal, which changes nothing but the
// lease of the session that spoke. A refusal is a *towpath.Error; one with CodeInternal says that the State is of no use
// any more. No events and no error means: acknowledged, and nothing follows.
func (s *State) Step(now time.Time, in towpath.Input) ([]towpath.Event, error) {
	s.out, s.fail = nil, nil
	s.wokeUp(now)
	if err := s.handle(now, in); err != nil {
		return nil, err
	}
	s.settle(now)
	if s.fail != nil {
		return nil, towpath.Errorf(towpath.CodeInternal, "decide %T: %w", in, s.fail)
	}
	out := s.out
	s.out = nil
	return out, nil
}

// Next returns when a Tick is due: at the earliest time at which something ends by itself, and while there are sessions
// at least four times a lease, so that a driver which slept is told from sessions that are silent.
func (s *State) Next() (time.Time, bool) {
	at, ok := s.due.next()
	if pulse := s.stepped.Add(s.pulse()); ok && len(s.order) > 0 && pulse.Before(at) {
		return pulse, true
	}
	return at, ok
}

func (s *State) pulse() time.Duration { return s.cfg.Lease / 4 }

// Resume gives every session one whole lease from now. A driver calls it after a replay.
func (s *State) Resume(now time.Time) {
	s.stepped = now
	for _, x := range s.order {
		x.hear(now.Add(s.cfg.Lease))
	}
	// The log holds whole steps: what followed from its events is in it.
	for _, b := range s.touched {
		b.touched = false
	}
	s.touched, s.dirty = nil, false
}

// Release drops a finished build from memory, once nothing of it is left to wind down. It says whether it did.
func (s *State) Release(n towpath.BuildNumber) bool {
	b := s.builds[n]
	if b == nil {
		return true
	}
	if !b.state.Final() || !b.wound() {
		return false
	}
	delete(s.builds, n)
	for i, x := range s.live {
		if x == b {
			s.live = append(s.live[:i], s.live[i+1:]...)
			break
		}
	}
	for _, x := range s.order {
		delete(x.builds, n)
	}
	return true
}

// emit records an event and applies it.
func (s *State) emit(now time.Time, n towpath.BuildNumber, body towpath.Body) {
	if s.fail != nil {
		return
	}
	e := towpath.Event{Build: n, At: now, Body: body}
	s.out = append(s.out, e)
	if err := s.Apply(e); err != nil {
		s.fail = err
	}
}

// settle draws what follows from the events of this step: results, ends of builds, offers and recalls.
func (s *State) settle(now time.Time) {
	for range 1_000_000 {
		if s.fail != nil {
			return
		}
		if len(s.touched) > 0 {
			b := s.touched[0]
			s.touched = s.touched[1:]
			b.touched = false
			s.conclude(now, b)
			continue
		}
		s.touched = nil
		if !s.dirty {
			return
		}
		s.dirty = false
		s.schedule(now)
	}
	s.fail = fmt.Errorf("settle: no end after a million rounds")
}

func (s *State) touch(b *build) {
	if !b.touched {
		b.touched = true
		s.touched = append(s.touched, b)
	}
}

func (s *State) touchAll() {
	for _, b := range s.live {
		s.touch(b)
	}
}
