package sched

import (
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// schedule fills free slots until nothing more can be offered, asks for units back where slots stay empty, and ends
// draining sessions that are done.
func (s *State) schedule(now time.Time) {
	for s.fail == nil {
		offered := false
		for _, x := range s.order {
			if x.free() > 0 || s.bug == bugOverSlots && x.free() == 0 {
				offered = s.offerTo(now, x) || offered
			}
		}
		if !offered {
			break
		}
	}
	s.recall(now)
	if slices.ContainsFunc(s.order, func(x *session) bool { return x.draining }) {
		for _, x := range slices.Clone(s.order) {
			s.endDrained(now, x)
		}
	}
}

// offerTo offers a session one attempt, of the build that has the fewest slots among those that can use it.
func (s *State) offerTo(now time.Time, x *session) bool {
	if now.Before(x.aside) {
		return false
	}
	var best *build
	var what towpath.AttemptKind
	for _, b := range s.live {
		kind := s.wants(b, x)
		switch {
		case kind == "":
		case best == nil,
			kind == towpath.AttemptTeardown && what != towpath.AttemptTeardown,
			(kind == towpath.AttemptTeardown) == (what == towpath.AttemptTeardown) && b.running < best.running:
			best, what = b, kind
		}
	}
	if best == nil {
		return false
	}
	s.offer(now, best, x, what)
	return true
}

// wants says what kind of attempt a build would run on a session now; "" if none.
func (s *State) wants(b *build, x *session) towpath.AttemptKind {
	g := x.builds[b.number]
	free := x.free()
	if s.bug == bugOverSlots {
		free++
	}
	if g == nil || free < b.slots() {
		return ""
	}
	if b.owesTeardown(g) && g.active == 0 && (b.state.Final() || b.tearing || x.draining) {
		return towpath.AttemptTeardown
	}
	if b.state.Final() || b.tearing || !b.waits() {
		return ""
	}
	if !g.usable() && (s.bug != bugDraining || !x.draining) && (s.bug != bugLabels || g.matches) {
		return ""
	}
	if b.state == towpath.BuildListing {
		return towpath.AttemptList
	}
	most := b.job.Parallel.Max
	if s.bug == bugParallel {
		most++
	}
	if b.job.Parallel.Max > 0 && b.runs >= most || b.perAgent() > 0 && g.runs >= b.perAgent() {
		return ""
	}
	if b.job.Setup != "" && g.setup != setupDone {
		if g.setup == setupNone && b.settingUp() < b.queue.n+b.alone.n {
			return towpath.AttemptSetup
		}
		return ""
	}
	if b.queue.n == 0 && s.aloneFor(b, x) < 0 {
		return ""
	}
	if s.bug == bugIdle && b.queue.n == 1 && b.runs > 0 {
		return ""
	}
	return towpath.AttemptRun
}

func (b *build) settingUp() int {
	n := 0
	for _, a := range b.active {
		if a.kind == towpath.AttemptSetup {
			n++
		}
	}
	return n
}

func (s *State) offer(now time.Time, b *build, x *session, kind towpath.AttemptKind) {
	e := towpath.AttemptOffered{
		Attempt: towpath.AttemptID(s.cfg.NewID()), Number: b.numbers + 1, Kind: kind, Session: x.id, Agent: x.agent,
		Limit: b.setupLimit(), StartBy: now.Add(s.cfg.OfferExpiry),
	}
	switch kind {
	case towpath.AttemptRun:
		if !b.splitDone {
			s.split(now, b)
		}
		e.Limit = 0
		units := s.take(b, x)
		e.Units = make([]towpath.OfferedUnit, len(units))
		for i, w := range units {
			a, limit := b.atoms[w.Atom], b.limitOf(w)
			o := towpath.OfferedUnit{Unit: w, Name: a.name, Limit: limit, Cases: b.unit(w).cases, Fresh: a.fails > 0 || a.unsplit}
			if w.Part > 0 {
				p := a.parts[w.Part-1].Part
				o.Split = &p
			}
			e.Units[i] = o
			e.Limit += limit
		}
	case towpath.AttemptList:
		if left := b.listBy.Add(-s.cfg.OfferExpiry - s.cfg.StopGrace).Sub(now); !b.listBy.IsZero() {
			e.Limit = max(time.Second, left)
		}
	case towpath.AttemptSetup, towpath.AttemptTeardown:
	}
	s.emit(now, b.number, e)
}

// maxRecalls bounds how often a batch is asked for units in a row without an answer.
const maxRecalls = 3

// recall asks running batches for half of what they have not begun, one for each slot that nothing waits for.
func (s *State) recall(now time.Time) {
	for _, b := range s.live {
		if b.state != towpath.BuildRunning || !b.job.PerAtom || b.queue.n > 0 || b.runs == 0 || b.tearing {
			continue
		}
		spare := s.spare(now, b)
		for _, a := range b.active {
			if a.recallBy.After(now) {
				spare--
			}
		}
		for ; spare > 0 && s.fail == nil; spare-- {
			rich := s.richest(now, b)
			if rich == nil {
				break
			}
			s.emit(now, b.number, towpath.RecallAsked{
				Attempt: rich.id, Session: rich.sess.id, Most: rich.restN / 2, By: now.Add(s.cfg.RecallWait),
			})
		}
	}
}

// spare counts the attempts that the build could run more, had it anything to run.
func (s *State) spare(now time.Time, b *build) int {
	n := 0
	for _, g := range b.bindings {
		x := g.sess
		if !g.usable() || now.Before(x.aside) || b.job.Setup != "" && g.setup != setupDone {
			continue
		}
		room := x.free() / b.slots()
		if p := b.perAgent(); p > 0 {
			room = min(room, p-g.runs)
		}
		n += max(0, room)
	}
	if p := b.job.Parallel.Max; p > 0 {
		n = min(n, p-b.runs)
	}
	return n
}

// richest finds the running batch with the most left that has not begun and is worth moving.
func (s *State) richest(now time.Time, b *build) *attempt {
	var rich *attempt
	for _, a := range b.active {
		if a.kind != towpath.AttemptRun || !a.started || a.stopping() || a.restN < 2 || a.recalls >= maxRecalls ||
			a.recallBy.After(now) || b.rest(a) <= 2*s.fixedCost(b, a.sess.class) {
			continue
		}
		if rich == nil || b.rest(a) > b.rest(rich) {
			rich = a
		}
	}
	return rich
}
