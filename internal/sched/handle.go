package sched

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// handle turns an input into the events that are directly its own. A refusal comes before the first event.
func (s *State) handle(now time.Time, in towpath.Input) error {
	switch in := in.(type) {
	case towpath.Submit:
		return s.submit(now, in)
	case towpath.Cancel:
		return s.cancel(now, in)
	case towpath.Hello:
		return s.hello(now, in)
	case towpath.Beat:
		_, err := s.liveSession(now, in.Session)
		return err
	case towpath.Drain:
		x, err := s.liveSession(now, in.Session)
		if err == nil && !x.draining {
			s.emit(now, 0, towpath.SessionDraining{Session: x.id})
		}
		return err
	case towpath.Goodbye:
		x, err := s.liveSession(now, in.Session)
		if err != nil {
			return err
		}
		reason := in.Reason
		if reason == "" {
			reason = "it said goodbye"
		}
		s.endSession(now, x, len(x.attempts) > 0, reason)
		return nil
	case towpath.Started:
		return s.started(now, in)
	case towpath.AtomBegan:
		return s.atomBegan(now, in)
	case towpath.AtomDone:
		return s.atomDone(now, in)
	case towpath.Done:
		return s.done(now, in)
	case towpath.Recalled:
		return s.recalled(now, in)
	case towpath.Tick:
		s.tick(now)
		return nil
	}
	return towpath.Errorf(towpath.CodeInternal, "decide: unknown input %T", in)
}

func (s *State) submit(now time.Time, in towpath.Submit) error {
	if s.builds[in.Build] != nil || in.Build < 1 {
		return towpath.Errorf(towpath.CodeConflict, "submit build %d: that number is taken", in.Build)
	}
	limit := in.Job.Timeouts.Build
	if limit <= 0 {
		limit = defaultBuild
	}
	s.emit(now, in.Build, towpath.BuildSubmitted{Job: in.Job, Only: in.Only, By: in.By, Deadline: now.Add(limit), Fixed: max(0, in.Fixed)})
	b := s.builds[in.Build]
	if b == nil {
		return nil
	}
	var atoms []towpath.ListedAtom
	switch {
	case len(in.Only) > 0:
		for _, o := range in.Only {
			atoms = append(atoms, towpath.ListedAtom{Name: o.Atom, Cases: o.Cases, Estimate: in.Estimates[o.Atom]})
		}
	case in.Job.Atoms.Command == "" && len(in.Job.Atoms.Glob) == 0:
		for _, name := range in.Job.Atoms.List {
			atoms = append(atoms, towpath.ListedAtom{Name: name, Estimate: in.Estimates[name]})
		}
	default:
		return nil
	}
	s.list(now, b, atoms)
	return nil
}

func (s *State) cancel(now time.Time, in towpath.Cancel) error {
	b := s.builds[in.Build]
	if b == nil {
		return towpath.Errorf(towpath.CodeNotFound, "cancel build %d: there is no such unfinished build", in.Build)
	}
	if b.state.Final() {
		return nil
	}
	reason := "canceled"
	if in.By != "" {
		reason = "canceled by " + in.By
	}
	s.finish(now, b, verdict{towpath.BuildCanceled, "", reason})
	return nil
}

// maxGraces bounds how often in a row a session is spared because the driver slept, so that a driver which is always
// late still finds out who is dead.
const maxGraces = 3

// wokeUp notices that the driver slept: a suspended laptop, a stopped process. What it was sent meanwhile has not been
// read yet, so sessions get one whole lease instead of being lost.
func (s *State) wokeUp(now time.Time) {
	slept := now.Sub(s.stepped)
	s.stepped = now
	if slept <= s.pulse()+s.cfg.Late || s.bug == bugLateTick {
		return
	}
	for _, x := range s.order {
		if x.graces < maxGraces && x.lease.Before(now.Add(s.cfg.Lease)) {
			x.lease = now.Add(s.cfg.Lease)
			x.graces++
		}
	}
}

// tick does what is due.
func (s *State) tick(now time.Time) {
	for s.fail == nil {
		d, ok := s.due.pop(now)
		if !ok {
			return
		}
		s.fire(now, d)
	}
}

func (s *State) fire(now time.Time, d due) {
	switch d.kind {
	case dueLease:
		s.endSession(now, d.sess, true, fmt.Sprintf("not heard from for %s", short(s.cfg.Lease)))
	case dueAside, dueRecall:
		if d.attempt != nil && s.bug == bugUnreplayable {
			d.attempt.recalls++
		}
		s.dirty = true
	case dueAttempt:
		s.expire(now, d.attempt)
	case dueBuild:
		s.finish(now, d.build, errored(towpath.CodeUnavailable, d.build.overdue()))
	case dueQueue:
		s.finish(now, d.build, errored(towpath.CodeUnavailable, d.build.noWorker()))
	case dueListing:
		s.finish(now, d.build, errored(towpath.CodeUnavailable, fmt.Sprintf("listing the atoms took longer than %s", short(d.build.setupLimit()))))
	case dueTeardown:
		s.giveUpTeardown(now, d.build)
	}
}
