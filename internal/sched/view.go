package sched

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// BuildView is what is known of a build in memory.
type BuildView struct {
	Number   towpath.BuildNumber
	Job      *towpath.Job
	State    towpath.BuildState
	Reason   string
	Since    time.Time
	Deadline time.Time
	Atoms    towpath.Counts
	Waiting  int           // units that are in no attempt
	Slots    int           // that attempts of it occupy
	Left     time.Duration // what waits or runs, by estimate, over the slots that there are
	Wound    bool          // finished, and nothing of it is left to wind down: Release drops it
	Attempts []AttemptView
}

// AttemptView is one attempt that has not ended.
type AttemptView struct {
	ID       towpath.AttemptID
	Number   int
	Kind     towpath.AttemptKind
	Session  towpath.SessionID
	Agent    string
	Units    int // without a result
	Began    int // of those
	Started  bool
	Stopping string // why it was told to end; "" if it was not
	Ends     time.Time
}

// Build returns what is known of a build, if it is in memory.
func (s *State) Build(n towpath.BuildNumber) (BuildView, bool) {
	b := s.builds[n]
	if b == nil {
		return BuildView{}, false
	}
	v := BuildView{
		Number: n, Job: b.job, State: b.state, Reason: b.reason, Since: b.since, Deadline: b.deadline, Atoms: b.tally(),
		Waiting: b.queue.n + b.alone.n, Slots: b.running, Wound: b.state.Final() && b.wound(),
	}
	left := b.remaining()
	for _, a := range b.active {
		left += b.rest(a)
		v.Attempts = append(v.Attempts, AttemptView{
			ID: a.id, Number: a.number, Kind: a.kind, Session: a.sess.id, Agent: a.sess.agent, Units: a.left, Began: a.began,
			Started: a.started, Stopping: a.stopReason, Ends: a.ends(),
		})
	}
	v.Left = left / time.Duration(max(1, b.width))
	return v, true
}

// Builds returns the numbers of the builds in memory, ascending.
func (s *State) Builds() []towpath.BuildNumber {
	ns := make([]towpath.BuildNumber, len(s.live))
	for i, b := range s.live {
		ns[i] = b.number
	}
	return ns
}

// Sessions returns the live sessions, in the order of their hellos.
func (s *State) Sessions() []towpath.SessionID {
	ids := make([]towpath.SessionID, len(s.order))
	for i, x := range s.order {
		ids[i] = x.id
	}
	return ids
}

// Wait is one thing that an unfinished build waits for.
type Wait struct {
	What  string    // one line
	Since time.Time // zero: not known
	Until time.Time // when it ends by itself
	Then  string    // what happens then
}

// Waiting says what an unfinished build waits for, the most telling first; the build's own deadline is last.
func (s *State) Waiting(n towpath.BuildNumber) []Wait {
	b := s.builds[n]
	if b == nil || b.state.Final() && b.wound() {
		return nil
	}
	var waits []Wait
	if until := b.queueEnds(); !until.IsZero() {
		waits = append(waits, Wait{What: "a worker" + b.wanted(), Since: b.noneSince, Until: until, Then: "the build is errored: " + b.noWorker()})
	} else if b.waits() && b.queue.n+b.alone.n > 0 {
		waits = append(waits, Wait{
			What:  fmt.Sprintf("a free slot of %d, for %d atoms or parts", b.width, b.queue.n+b.alone.n),
			Until: b.deadline, Then: "the build is errored",
		})
	} else if b.waits() {
		waits = append(waits, Wait{What: "a free slot, to list the atoms", Since: b.since, Until: b.deadline, Then: "the build is errored"})
	}
	for _, g := range b.bindings {
		if x := g.sess; b.waits() && g.usable() && x.asideN > 0 && !x.aside.IsZero() {
			waits = append(waits, Wait{
				What:  fmt.Sprintf("worker %s, which did not begin its last %d offers", x.agent, x.asideN),
				Until: x.aside, Then: "it is offered work again",
			})
		}
	}
	for _, a := range b.active {
		w := Wait{What: fmt.Sprintf("attempt %d: %s on %s", a.number, a.what(), a.sess.agent), Since: a.offered, Until: a.ends()}
		switch {
		case a.stopping():
			w.What += ", told to end: " + a.stopReason
			w.Then = "it is abandoned and its slots stay taken"
			if !a.started {
				w.Then = "the offer is taken back"
			}
		case !a.started:
			w.What += ", offered and not begun"
			w.Then = "the offer is taken back and goes elsewhere"
		default:
			w.Then = "it is told to end"
		}
		waits = append(waits, w)
	}
	if !b.state.Final() {
		waits = append(waits, Wait{What: "the end of the build", Since: b.since, Until: b.deadline, Then: "the build is errored"})
	} else if until := b.teardownEnds(); !until.IsZero() {
		waits = append(waits, Wait{What: "teardowns", Until: until, Then: "they are given up"})
	}
	return waits
}
