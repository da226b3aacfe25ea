package sched

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// Check looks for a broken promise in the state as it is between two steps, and names the first that it finds. It is
// for tests: it looks at everything, and works out by itself what Step keeps count of.
func (s *State) Check(now time.Time) error {
	earliest := time.Time{}
	what := ""
	need := func(at time.Time, name string) {
		if !at.IsZero() && (earliest.IsZero() || at.Before(earliest)) {
			earliest, what = at, name
		}
	}
	for _, x := range s.order {
		if err := s.checkSession(x); err != nil {
			return err
		}
		need(x.lease, "a lease")
	}
	for _, b := range s.live {
		if !b.state.Final() && b.deadline.IsZero() {
			return fmt.Errorf("build %d has no deadline", b.number)
		}
		if !b.state.Final() {
			need(b.deadline, "a build")
		}
		need(b.queueEnds(), "a wait for workers")
		need(b.listingEnds(), "a listing")
		need(b.teardownEnds(), "teardowns")
		for _, a := range b.active {
			if a.ends().IsZero() {
				return fmt.Errorf("attempt %s has no deadline", a.id)
			}
			need(a.ends(), "an attempt")
		}
		if b.state.Final() && !b.wound() && len(b.active) == 0 && b.teardownEnds().IsZero() {
			return fmt.Errorf("build %d waits for teardowns without a deadline", b.number)
		}
		if b.state == towpath.BuildListing && len(b.active) == 0 && b.matching == 0 && b.queueEnds().IsZero() {
			return fmt.Errorf("build %d waits for a worker without a deadline", b.number)
		}
		if err := s.checkBuild(now, b); err != nil {
			return err
		}
	}
	next, ok := s.Next()
	if !earliest.IsZero() && (!ok || next.After(earliest)) {
		return fmt.Errorf("next deadline is %v (%t), but %s ends at %v", next, ok, what, earliest)
	}
	return nil
}

func (s *State) checkSession(x *session) error {
	used, suspects := 0, 0
	for _, a := range x.attempts {
		used += a.slots
		if a.suspect {
			suspects++
		}
		if s.attempts[a.id] != a {
			return fmt.Errorf("session %s holds attempt %s, which is over", x.id, a.id)
		}
	}
	switch {
	case used != x.used:
		return fmt.Errorf("session %s counts %d slots used, its attempts use %d", x.id, x.used, used)
	case used > x.slots:
		return fmt.Errorf("session %s uses %d of %d slots", x.id, used, x.slots)
	case suspects > 1:
		return fmt.Errorf("session %s runs %d suspects at once", x.id, suspects)
	}
	return nil
}

func (s *State) checkBuild(now time.Time, b *build) error {
	if len(b.decided) > 0 || b.touched {
		return fmt.Errorf("build %d is not settled", b.number)
	}
	for _, a := range b.active {
		if a.sess.over || s.attempts[a.id] != a {
			return fmt.Errorf("attempt %s of build %d is of a session that is gone", a.id, b.number)
		}
	}
	if n := b.job.Parallel.Max; n > 0 && b.runs > n {
		return fmt.Errorf("build %d runs %d attempts, parallel.max is %d", b.number, b.runs, n)
	}
	if b.state != towpath.BuildRunning {
		return nil
	}
	plain, alone, free := 0, 0, 0 // waiting units: of the queue, alone and suspect, alone and not suspect
	unfinished := 0
	var sum time.Duration
	look := func(a *atom, u *unit, done bool) error {
		if (u.attempt != nil || u.queued != inNone) == done {
			return fmt.Errorf("build %d: a unit of %s is in no attempt and does not wait, or both", b.number, a.name)
		}
		if u.queued == inNone {
			return nil
		}
		if u.attempt != nil {
			return fmt.Errorf("build %d: a unit of %s waits and runs", b.number, a.name)
		}
		sum += u.mean
		switch {
		case u.queued == inQueue:
			plain++
		case u.suspect:
			alone++
		default:
			free++
		}
		return nil
	}
	for _, a := range b.atoms {
		if a.state.Final() {
			continue
		}
		unfinished++
		if len(a.parts) == 0 || a.unsplit {
			if err := look(a, &a.whole, false); err != nil {
				return err
			}
			continue
		}
		for i := range a.parts {
			if err := look(a, &a.parts[i].unit, a.parts[i].done); err != nil {
				return err
			}
		}
	}
	switch {
	case unfinished != b.unfinished:
		return fmt.Errorf("build %d counts %d unfinished atoms, there are %d", b.number, b.unfinished, unfinished)
	case plain != b.queue.n || alone+free != b.alone.n:
		return fmt.Errorf("build %d counts %d+%d waiting units, there are %d+%d", b.number, b.queue.n, b.alone.n, plain, alone+free)
	case sum != b.waitSum:
		return fmt.Errorf("build %d counts %v waiting, it is %v", b.number, b.waitSum, sum)
	case unfinished == 0 && len(b.active) == 0 && !b.tearing:
		return fmt.Errorf("build %d has nothing left to do and does not end", b.number)
	}
	if at, ok := s.Next(); ok && !at.After(now) {
		return nil // a Tick is overdue, and it may be what lets a session take work again
	}
	return b.checkIdle(now, plain+free > 0, alone > 0)
}

// checkIdle looks for a free slot beside a waiting unit that could run on it.
func (b *build) checkIdle(now time.Time, any, suspects bool) error {
	if !any && !suspects || b.job.Parallel.Max > 0 && b.runs >= b.job.Parallel.Max {
		return nil
	}
	for _, g := range b.bindings {
		x := g.sess
		used := 0
		for _, a := range x.attempts {
			used += a.slots
		}
		switch {
		case x.draining, now.Before(x.aside), !x.carries(b.job.Labels), x.slots-used < b.slots(),
			b.perAgent() > 0 && g.runs >= b.perAgent(),
			b.job.Setup != "" && g.setup != setupDone,
			!any && x.suspects > 0:
			continue
		}
		return fmt.Errorf("build %d has units waiting while session %s has %d of %d slots free", b.number, x.id, x.slots-used, x.slots)
	}
	return nil
}
