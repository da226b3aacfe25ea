package sched

import (
	"slices"
	"time"

	"github.com/towpath/towpath"
)

const (
	classLocal = "local"
	maxBatch   = 5000 // units of one attempt
)

// fixedAtFirst is the fixed cost of a subjob before any was seen.
func fixedAtFirst(class string) time.Duration {
	switch class {
	case "pod":
		return 5 * time.Second
	case "agent":
		return 300 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// fixedCost is what a subjob costs before its first atom begins: by what this job showed, else by the class of session.
func (s *State) fixedCost(b *build, class string) time.Duration {
	if b.fixed > 0 {
		return b.fixed
	}
	return s.classCost(class)
}

// classCost is what a subjob costs on a class of sessions, whatever its job starts there.
func (s *State) classCost(class string) time.Duration {
	if h, ok := s.fixed[class]; ok {
		return h
	}
	return fixedAtFirst(class)
}

// learnFixed takes in how long it was from an offer to the start of its first atom.
func (s *State) learnFixed(b *build, class string, took time.Duration) {
	took = min(max(took, time.Millisecond), time.Minute)
	h := s.classCost(class)
	s.fixed[class] = h + (took-h)*3/10
	if b.fixed == 0 {
		b.fixed = took
	} else {
		b.fixed += (took - b.fixed) * 3 / 10
	}
}

func clampSpeed(v int64) int64 { return min(max(v, 500), 2000) }

// learnSpeed compares what an atom took with what was expected. Short ones say nothing.
func (s *State) learnSpeed(a *attempt, u *unit, r *towpath.AtomReport) {
	if r.Outcome != towpath.OutcomePassed || r.Cached || u.mean < 50*time.Millisecond || r.Duration <= 0 || len(u.cases) > 0 {
		return
	}
	v := clampSpeed(int64(u.mean * 1000 / r.Duration))
	a.sess.speed += (v - a.sess.speed) / 10
}

// usual is the 75th percentile of the known durations; 0 if none is known.
func usual(atoms []towpath.ListedAtom) time.Duration {
	var known []time.Duration
	for i := range atoms {
		if m := atoms[i].Estimate.Mean; m > 0 {
			known = append(known, m)
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[(len(known)*3)/4]
}

// unknown is the estimate of an atom that was never run.
func (b *build) unknown() time.Duration {
	switch {
	case b.usual > 0:
		return b.usual
	case b.newCount > 0:
		return max(time.Millisecond, b.newSum/time.Duration(b.newCount))
	}
	return time.Second
}

func (b *build) estimate(u *unit) time.Duration {
	if u.mean > 0 {
		return u.mean
	}
	// Not b.unknown, which moves while an attempt holds the unit and its estimate in a sum.
	if b.usual > 0 {
		return b.usual
	}
	return time.Second
}

// rest is what an attempt has not begun. Where no duration was known, what this build has shown since counts.
func (b *build) rest(a *attempt) time.Duration {
	if b.usual == 0 {
		return time.Duration(a.restN) * b.unknown()
	}
	return a.restSum
}

// remaining is the sum of the estimates of all that waits.
func (b *build) remaining() time.Duration {
	return b.waitSum + time.Duration(b.waitNew)*b.unknown()
}

// target is how long the next batch should take: long enough that the fixed cost h of a subjob is small beside it,
// short enough that the end is even. A batch that cannot be recalled aims lower, until all that waits has been run
// before: then it takes four fifths of an even share, which leaves room for estimates that are a quarter too low, and
// starts its command half as often; or all of the share where the fifth is not worth another start (docs/adr/0023).
func (s *State) target(b *build, x *session) time.Duration {
	if t := b.job.Batch.Target; t > 0 {
		return t
	}
	m := time.Duration(max(1, b.width))
	r := b.remaining()
	t, least := r/(2*m), 2*s.fixedCost(b, x.class)
	switch {
	case b.job.PerAtom:
		t = r * 2 / (3 * m)
	case b.waitNew == 0 && r/m-r*4/(5*m) < least:
		t = r / m
	case b.waitNew == 0:
		t = r * 4 / (5 * m)
	}
	t = t * time.Duration(x.speed) / 1000
	return max(least, t)
}

// take says which waiting units the next attempt on a session gets: one that must be alone, or the first ones of the
// queue until their estimates reach the target.
func (s *State) take(b *build, x *session) []towpath.Unit {
	if i := s.aloneFor(b, x); i >= 0 {
		return []towpath.Unit{b.alone.items[i]}
	}
	if b.queue.n == 0 {
		return nil
	}
	most, target := maxBatch, time.Duration(0)
	if b.job.Batch.Count > 0 {
		most = b.job.Batch.Count
	} else {
		target = s.target(b, x)
	}
	var units []towpath.Unit
	var sum time.Duration
	fresh := b.unknown()
	for i := b.peek(&b.queue, b.queue.head, inQueue); i < len(b.queue.items) && len(units) < most; i = b.peek(&b.queue, i+1, inQueue) {
		w := b.queue.items[i]
		units = append(units, w)
		if m := b.unit(w).mean; m > 0 {
			sum += m
		} else {
			sum += fresh
		}
		if target > 0 && sum >= target {
			break
		}
	}
	return units
}

// aloneFor finds the first unit that must be alone and may run on this session; -1 if there is none. Of units that are
// charged with a loss a session runs one at a time, so that the next loss tells which of them it is.
func (s *State) aloneFor(b *build, x *session) int {
	if b.alone.n == 0 {
		return -1
	}
	for i := b.peek(&b.alone, b.alone.head, inAlone); i < len(b.alone.items); i = b.peek(&b.alone, i+1, inAlone) {
		if !b.unit(b.alone.items[i]).suspect || x.suspects == 0 || s.bug == bugSuspects {
			return i
		}
	}
	return -1
}

// limitOf is how long one unit may run. Where no limit is set it is learned: generous while little is known.
func (b *build) limitOf(w towpath.Unit) time.Duration {
	if t := b.job.Timeouts.Atom; t > 0 {
		return t
	}
	e := b.atoms[w.Atom].est
	if e.Passes < 5 || b.shares() {
		return 10 * time.Minute
	}
	return max(time.Minute, 10*(e.Mean+4*e.Dev))
}

// shares says whether what an atom took is its share of a command for several. That spreads the work; how long one takes
// alone is not known, and may be all of it.
func (b *build) shares() bool {
	return b.job.Report.Kind == towpath.ReportNone && !b.job.PerAtom && b.job.Batch.Count != 1
}
