package sched

import (
	"fmt"
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// Apply changes the state by one event. Events must come in the order in which Step gave them. An error says that the
// event does not fit the state: the log is not whole, or another configuration or version wrote it.
func (s *State) Apply(e towpath.Event) error {
	switch body := e.Body.(type) {
	case towpath.SessionOpened:
		return s.applyOpened(e.At, body)
	case towpath.SessionDraining, towpath.SessionEnded, towpath.SlotsFreed:
		return s.applySession(e)
	case towpath.BuildSubmitted:
		return s.applySubmitted(e, body)
	}
	b := s.builds[e.Build]
	if b == nil {
		return fmt.Errorf("apply %T: no build %d", e.Body, e.Build)
	}
	s.touch(b)
	switch body := e.Body.(type) {
	case towpath.AtomsListed:
		return s.applyListed(b, body)
	case towpath.AtomSplit:
		return s.applySplit(b, body)
	case towpath.AttemptOffered:
		return s.applyOffered(e.At, b, body)
	case towpath.AtomFinished:
		return s.applyAtomFinished(b, body)
	case towpath.TeardownBegan:
		b.tearing = true
		b.teardownBy = body.By
		s.due.push(due{at: body.By, kind: dueTeardown, seq: uint64(b.number), build: b})
		s.dirty = true
		return nil
	case towpath.TeardownGivenUp:
		for _, g := range b.bindings {
			g.torn = true
		}
		s.dirty = true
		return nil
	case towpath.BuildFinished:
		s.applyFinished(b, body)
		return nil
	}
	return s.applyAttempt(e, b)
}

// applyAttempt applies what happened to an attempt under way.
func (s *State) applyAttempt(e towpath.Event, b *build) error {
	find := func(id towpath.AttemptID) (*attempt, error) {
		a := s.attempts[id]
		if a == nil || a.build != b {
			return nil, fmt.Errorf("apply %T: build %d has no attempt %s", e.Body, b.number, id)
		}
		return a, nil
	}
	switch body := e.Body.(type) {
	case towpath.AttemptStarted:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		a.started, a.since = true, e.At
		if b.begun.IsZero() {
			b.begun = e.At
		}
		a.deadline = body.Deadline
		a.sess.asideN = 0
		s.dirty = s.dirty || !a.sess.aside.IsZero()
		a.sess.aside = time.Time{}
		if a.kind == towpath.AttemptSetup || a.kind == towpath.AttemptRun {
			a.bind.used = true
		}
		s.arm(a)
		return nil
	case towpath.AtomStarted:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		return s.applyAtomStarted(e.At, a, body.Unit)
	case towpath.AtomReported:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		return s.applyReported(e.At, a, body)
	case towpath.RecallAsked:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		a.recallBy = body.By
		a.recalls++
		s.due.push(due{at: body.By, kind: dueRecall, seq: s.nextSeq(), attempt: a})
		return nil
	case towpath.UnitsRecalled:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		return s.applyRecalled(e.At, a, body)
	case towpath.AttemptStopped:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		a.stopBy, a.stopCause, a.stopReason = body.By, body.Cause, body.Reason
		s.arm(a)
		return nil
	case towpath.AttemptEnded:
		a, err := find(body.Attempt)
		if err != nil {
			return err
		}
		s.applyEnded(e.At, a, body)
		return nil
	}
	return fmt.Errorf("apply: unknown event %T", e.Body)
}

func (s *State) nextSeq() uint64 {
	s.seq++
	return s.seq
}

func (s *State) arm(a *attempt) {
	s.due.push(due{at: a.ends(), kind: dueAttempt, seq: s.nextSeq(), attempt: a})
}

func (s *State) applyOpened(at time.Time, e towpath.SessionOpened) error {
	if s.sessions[e.Session] != nil {
		return fmt.Errorf("apply %T: session %s is open", e, e.Session)
	}
	x := &session{
		id: e.Session, seq: s.nextSeq(), agent: e.Agent, class: either(e.Class, classLocal), slots: e.Slots, labels: e.Labels,
		builds: map[towpath.BuildNumber]*binding{}, speed: 1000, lease: at.Add(s.cfg.Lease),
	}
	if e.Speed > 0 {
		x.speed = clampSpeed(int64(e.Speed * 1000))
	}
	s.sessions[x.id] = x
	s.order = append(s.order, x)
	s.due.push(due{at: x.lease, kind: dueLease, seq: x.seq, sess: x})
	for _, b := range s.live {
		if !b.state.Final() {
			b.bind(x)
			s.recount(at, b)
			s.touch(b)
		}
	}
	s.dirty = true
	return nil
}

func (s *State) applySession(e towpath.Event) error {
	var id towpath.SessionID
	switch body := e.Body.(type) {
	case towpath.SessionDraining:
		id = body.Session
	case towpath.SessionEnded:
		id = body.Session
	case towpath.SlotsFreed:
		id = body.Session
	}
	x := s.sessions[id]
	if x == nil {
		return fmt.Errorf("apply %T: no session %s", e.Body, id)
	}
	s.dirty = true
	switch body := e.Body.(type) {
	case towpath.SessionDraining:
		x.draining = true
	case towpath.SessionEnded:
		x.over = true
		delete(s.sessions, id)
		s.order = slices.DeleteFunc(s.order, func(o *session) bool { return o == x })
		s.ended.add(id, body.Reason)
		for _, a := range x.attempts {
			if a.abandoned {
				a.over = true
				delete(s.attempts, a.id)
			}
		}
	case towpath.SlotsFreed:
		if a := s.attempts[body.Attempt]; a != nil && a.sess == x {
			a.over = true
			delete(s.attempts, a.id)
			x.drop(a)
		}
		return nil
	}
	for _, b := range s.live {
		if x.over {
			b.unbind(x)
		}
		s.recount(e.At, b)
		s.touch(b)
	}
	return nil
}

func (s *State) applySubmitted(e towpath.Event, body towpath.BuildSubmitted) error {
	if s.builds[e.Build] != nil {
		return fmt.Errorf("apply %T: build %d exists", body, e.Build)
	}
	job := body.Job
	b := &build{
		number: e.Build, job: &job, state: towpath.BuildListing, since: e.At, deadline: body.Deadline,
		fixed: body.Fixed, flawed: s.bug,
	}
	s.builds[e.Build] = b
	i, _ := slices.BinarySearchFunc(s.live, b, func(x, y *build) int { return int(x.number - y.number) })
	s.live = slices.Insert(s.live, i, b)
	for _, x := range s.order {
		b.bind(x)
	}
	s.due.push(due{at: b.deadline, kind: dueBuild, seq: uint64(b.number), build: b})
	s.recount(e.At, b)
	s.touch(b)
	s.dirty = true
	return nil
}

func (s *State) applyListed(b *build, e towpath.AtomsListed) error {
	if b.state != towpath.BuildListing {
		return fmt.Errorf("apply %T: build %d is %s", e, b.number, b.state)
	}
	b.state = towpath.BuildRunning
	b.unfinished = len(e.Atoms)
	b.atoms = make([]*atom, len(e.Atoms))
	store := make([]atom, len(e.Atoms))
	b.queue.items = make([]towpath.Unit, len(e.Atoms))
	for i := range e.Atoms {
		l := &e.Atoms[i]
		a := &store[i]
		est := l.Estimate
		est.Mean, est.Dev = max(0, est.Mean), max(0, est.Dev)
		*a = atom{index: i, name: l.Name, cases: l.Cases, est: est, state: towpath.AtomPending}
		a.quarantine = towpath.Quarantined(b.job.Quarantine, l.Name, "", b.since)
		a.whole = unit{mean: est.Mean, dev: est.Dev, cases: l.Cases, queued: inQueue}
		b.atoms[i] = a
		b.queue.items[i] = towpath.Unit{Atom: i}
		b.count(&a.whole, 1)
	}
	b.queue.n = len(e.Atoms)
	b.usual = usual(e.Atoms)
	slices.SortFunc(b.queue.items, b.order)
	s.armQueue(b)
	s.dirty = true
	return nil
}

func (s *State) applyOffered(at time.Time, b *build, e towpath.AttemptOffered) error {
	x := s.sessions[e.Session]
	if x == nil || x.builds[b.number] == nil {
		return fmt.Errorf("apply %T: no session %s", e, e.Session)
	}
	if s.attempts[e.Attempt] != nil {
		return fmt.Errorf("apply %T: attempt %s exists", e, e.Attempt)
	}
	g := x.builds[b.number]
	a := &attempt{
		id: e.Attempt, number: e.Number, kind: e.Kind, build: b, bind: g, sess: x, slots: b.slots(), limit: e.Limit,
		startBy: e.StartBy, offered: at,
	}
	s.attempts[a.id] = a
	b.numbers = max(b.numbers, e.Number)
	b.active = append(b.active, a)
	b.running += a.slots
	g.active++
	x.used += a.slots
	x.attempts = append(x.attempts, a)
	switch e.Kind {
	case towpath.AttemptSetup:
		g.setup = setupRuns
	case towpath.AttemptList:
		if b.listBy.IsZero() {
			b.listBy = at.Add(b.setupLimit() + s.cfg.OfferExpiry + s.cfg.StopGrace)
			s.due.push(due{at: b.listBy, kind: dueListing, seq: uint64(b.number), build: b})
		}
	case towpath.AttemptTeardown:
	case towpath.AttemptRun:
		b.runs++
		g.runs++
		b.splitDone = true
		a.units = make([]towpath.Unit, len(e.Units))
		a.left, a.restN = len(e.Units), len(e.Units)
		for i := range e.Units {
			w := e.Units[i].Unit
			u := b.unit(w)
			if u == nil {
				return fmt.Errorf("apply %T: build %d has no unit %v", e, b.number, w)
			}
			a.units[i] = w
			b.leave(u)
			u.attempt, u.began = a, false
			a.restSum += b.estimate(u)
			a.suspect = a.suspect || u.suspect
			if t := b.atoms[w.Atom]; t.state == towpath.AtomPending {
				t.state = towpath.AtomRunning
			}
		}
		if a.suspect {
			x.suspects++
		}
		b.compact(&b.queue, inQueue)
		b.compact(&b.alone, inAlone)
	}
	s.arm(a)
	return nil
}

func (s *State) applyAtomStarted(at time.Time, a *attempt, w towpath.Unit) error {
	u := a.build.unit(w)
	if u == nil || u.attempt != a || u.began {
		return fmt.Errorf("apply %T: unit %v is not of attempt %s", towpath.AtomStarted{}, w, a.id)
	}
	s.unitBegan(at, a, u)
	return nil
}

func (s *State) unitBegan(at time.Time, a *attempt, u *unit) {
	u.began = true
	if a.began == 0 && a.reported == 0 {
		s.learnFixed(a.build, a.sess.class, at.Sub(a.offered))
	}
	a.began++
	a.restN--
	a.restSum -= a.build.estimate(u)
}

// resolve takes a unit out of its attempt.
func (s *State) resolve(at time.Time, a *attempt, u *unit) {
	if !u.began {
		a.restN--
		a.restSum -= a.build.estimate(u)
	} else {
		a.began--
	}
	u.attempt, u.began = nil, false
	a.left--
	if a.left > 0 {
		return
	}
	// All that is left is its own end, which must come soon.
	if by := at.Add(s.cfg.StopGrace); a.started && by.Before(a.deadline) {
		a.deadline = by
		s.arm(a)
	}
}

func (s *State) applyReported(at time.Time, a *attempt, e towpath.AtomReported) error {
	b := a.build
	u := b.unit(e.Unit)
	if u == nil || u.attempt != a && s.bug != bugDoubleReport {
		return fmt.Errorf("apply %T: unit %v is not of attempt %s", e, e.Unit, a.id)
	}
	if u.attempt == a {
		s.resolve(at, a, u)
	}
	a.reported++
	b.cases += e.Report.Counts.Total
	s.learnSpeed(a, u, &e.Report)
	b.judge(a, e.Unit, &e)
	s.requeued(b, e.Unit)
	return nil
}

// requeued makes what follows from a unit that may wait again.
func (s *State) requeued(b *build, w towpath.Unit) {
	if w.Atom < len(b.atoms) {
		if a := b.atoms[w.Atom]; a.state == towpath.AtomRunning && a.idle() {
			a.state = towpath.AtomPending
		}
	}
	s.dirty = true
	s.armQueue(b)
}

// idle says whether no attempt has the atom or a part of it.
func (a *atom) idle() bool {
	if a.whole.attempt != nil {
		return false
	}
	for i := range a.parts {
		if a.parts[i].unit.attempt != nil {
			return false
		}
	}
	return true
}

func (s *State) applyRecalled(at time.Time, a *attempt, e towpath.UnitsRecalled) error {
	b := a.build
	a.recallBy = time.Time{}
	a.recalls = 0
	for _, w := range e.Units {
		u := b.unit(w)
		if u == nil || u.attempt != a {
			return fmt.Errorf("apply %T: unit %v is not of attempt %s", e, w, a.id)
		}
		s.resolve(at, a, u)
		if s.bug != bugDropRecalled {
			b.again(w)
		}
		s.requeued(b, w)
	}
	s.dirty = true
	return nil
}

// again lets a unit wait as it did before.
func (b *build) again(w towpath.Unit) {
	a := b.atoms[w.Atom]
	if b.state.Final() || a.decided || a.state.Final() || w.Part > 0 && a.unsplit {
		return
	}
	b.put(w)
}

func (s *State) applyAtomFinished(b *build, e towpath.AtomFinished) error {
	if e.Atom < 0 || e.Atom >= len(b.atoms) {
		return fmt.Errorf("apply %T: build %d has no atom %d", e, b.number, e.Atom)
	}
	a := b.atoms[e.Atom]
	if a.state.Final() && s.bug == "" {
		return fmt.Errorf("apply %T: atom %d of build %d is %s", e, e.Atom, b.number, a.state)
	}
	a.state, a.reason, a.verdict, a.decided = e.State, e.Reason, e.Verdict, false
	b.unfinished--
	b.leave(&a.whole)
	for i := range a.parts {
		b.leave(&a.parts[i].unit)
	}
	if i := slices.Index(b.decided, e.Atom); i >= 0 {
		b.decided = slices.Delete(b.decided, i, i+1)
	}
	return nil
}

func (s *State) applyFinished(b *build, e towpath.BuildFinished) {
	b.state, b.reason = e.State, e.Reason
	b.decided = nil
	b.queue, b.alone = queue{}, queue{}
	b.waitSum, b.waitNew = 0, 0
	b.teardownBy = e.TeardownBy
	if b.teardownBy.IsZero() {
		for _, g := range b.bindings {
			g.torn = true
		}
	}
	s.due.push(due{at: b.teardownBy, kind: dueTeardown, seq: uint64(b.number), build: b})
	s.dirty = true
}
