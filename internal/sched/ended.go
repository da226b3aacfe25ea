package sched

import (
	"slices"
	"time"

	"github.com/towpath/towpath"
)

func (s *State) applyEnded(at time.Time, a *attempt, e towpath.AttemptEnded) {
	b, x, g := a.build, a.sess, a.bind
	b.active = slices.DeleteFunc(b.active, func(o *attempt) bool { return o == a })
	b.running -= a.slots
	g.active--
	if a.kind == towpath.AttemptRun {
		b.runs--
		g.runs--
		b.overlap += a.overlap(at)
	}
	if e.Abandoned && s.bug != bugReuseAbandoned {
		a.abandoned = true
	} else {
		a.over = true
		delete(s.attempts, a.id)
		x.drop(a)
	}
	if e.Expired && !a.stopping() {
		x.asideN++
		x.aside = at.Add(s.cfg.OfferExpiry << min(x.asideN-1, 4))
		s.due.push(due{at: x.aside, kind: dueAside, seq: x.seq, sess: x})
	}
	switch a.kind {
	case towpath.AttemptList:
		if e.Lost {
			b.listLost = append(b.listLost, x.agent)
		}
	case towpath.AttemptSetup:
		b.setupEnded(a, e)
		s.recount(at, b)
	case towpath.AttemptTeardown:
		if !e.Expired {
			g.torn = true
		}
	case towpath.AttemptRun:
		s.dispose(a, e)
	}
	s.dirty = true
	s.armQueue(b)
}

func (b *build) setupEnded(a *attempt, e towpath.AttemptEnded) {
	g := a.bind
	switch {
	case e.Lost:
		g.setup = setupNone
		if a.started {
			b.setupLost = append(b.setupLost, a.sess.agent)
		}
	case e.Expired, a.stopping() && a.stopCause != towpath.StopLimit:
		g.setup = setupNone
	case e.Outcome == towpath.OutcomePassed && !e.Abandoned:
		g.setup = setupDone
	default:
		g.setup = setupFailed
		reason := oneLine(e.Reason)
		if a.stopCause == towpath.StopLimit {
			reason = a.stopReason
		}
		b.setupFail = append(b.setupFail, a.sess.agent+": "+either(reason, "outcome "+string(e.Outcome)))
	}
}

// dispose says what becomes of the units of a run that ended without their results.
func (s *State) dispose(a *attempt, e towpath.AttemptEnded) {
	b := a.build
	if a.left == 0 {
		return
	}
	began := a.began
	first := true
	for _, w := range a.units {
		u := b.unit(w)
		if u.attempt != a {
			continue
		}
		was := u.began
		u.attempt, u.began = nil, false
		// The agent may have had no time to say that it began: of an attempt that was begun and of which nothing else is
		// known, its first atom did, or all of them if it is one command.
		mayHave := a.started && began == 0 && a.reported == 0 && (first || !b.job.PerAtom)
		first = false
		switch {
		case b.state.Final():
		case e.Lost && s.bug == bugChargeAll, e.Lost && (was || mayHave):
			b.charge(w, a, "")
		case e.Lost, e.Expired:
			b.again(w)
		case a.stopCause == towpath.StopLimit && (was || mayHave):
			r := towpath.AtomReport{Outcome: towpath.OutcomeTimedOut, Reason: a.stopReason}
			b.judge(a, w, &towpath.AtomReported{Attempt: a.id, Unit: w, Report: r})
		case a.stopCause == towpath.StopLimit:
			b.again(w)
		default:
			b.charge(w, a, either(oneLine(e.Reason), "worker "+a.sess.agent+" ended the attempt without its result"))
		}
		s.requeued(b, w)
	}
	a.left, a.restN, a.restSum = 0, 0, 0
}
