package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// conclude says the results that are known, and ends the build or its parts when nothing is left to wait for.
func (s *State) conclude(now time.Time, b *build) {
	if b.state.Final() {
		return
	}
	for len(b.decided) > 0 && s.fail == nil {
		a := b.atoms[b.decided[0]]
		s.say(now, b, a)
		if a.state == towpath.AtomFailed && b.job.FailFast {
			s.failFast(now, b, a)
		}
	}
	if why := b.hopeless(); why != "" {
		s.finish(now, b, errored(b.hopelessCode(), why))
		return
	}
	if b.state != towpath.BuildRunning || b.unfinished > 0 {
		return
	}
	waiting := false
	for _, a := range slices.Clone(b.active) {
		switch {
		case a.kind == towpath.AttemptTeardown:
			waiting = true
		case a.kind == towpath.AttemptRun && a.left == 0:
			waiting = true // its end comes by itself
		default:
			waiting = true
			s.stop(now, a, towpath.StopUnneeded, "nothing is left for it to do")
		}
	}
	if waiting {
		return
	}
	if slices.ContainsFunc(b.bindings, b.owesTeardown) {
		if !b.tearing {
			s.emit(now, b.number, towpath.TeardownBegan{By: s.teardownBy(now, b)})
		}
		return
	}
	s.finish(now, b, b.result())
}

func (s *State) teardownBy(now time.Time, b *build) time.Time {
	return now.Add(b.setupLimit() + s.cfg.OfferExpiry + 2*s.cfg.StopGrace)
}

func (s *State) say(now time.Time, b *build, a *atom) {
	s.emit(now, b.number, towpath.AtomFinished{
		Atom: a.index, State: a.next, Reason: a.reason, Verdict: a.verdict, NeverSplit: a.never,
	})
}

// failFast leaves out what is not finished after an atom failed.
func (s *State) failFast(now time.Time, b *build, failed *atom) {
	reason := "left out by fail_fast: " + failed.name + " failed"
	for _, a := range b.atoms {
		if !a.state.Final() && !a.decided {
			s.emit(now, b.number, towpath.AtomFinished{Atom: a.index, State: towpath.AtomSkipped, Reason: reason})
		}
	}
	for _, a := range slices.Clone(b.active) {
		if a.kind == towpath.AttemptRun && a.left > 0 || a.kind == towpath.AttemptSetup {
			s.stop(now, a, towpath.StopFailFast, reason)
		}
	}
}

// overdue says that the build took too long, and what of it was running.
func (b *build) overdue() string {
	reason := "the build took longer than " + short(b.limit())
	for _, a := range b.active { // the oldest first
		if !a.started {
			continue
		}
		if a.kind != towpath.AttemptRun {
			return fmt.Sprintf("%s, while its %s ran on %s", reason, a.kind, a.sess.agent)
		}
		for _, w := range a.units {
			if u := b.unit(w); u != nil && u.attempt == a && u.began {
				return fmt.Sprintf("%s, while %s ran on %s and %d of %d atoms had no result", reason, b.atoms[w.Atom].name, a.sess.agent, b.unfinished, len(b.atoms))
			}
		}
	}
	if b.unfinished > 0 {
		reason += fmt.Sprintf(", while %d of %d atoms had no result and none ran", b.unfinished, len(b.atoms))
	}
	return reason
}

// hopeless says why the build cannot get ready to run anything; "" if it can.
func (b *build) hopeless() string {
	switch n := b.lostLimit(); {
	case len(b.listLost) >= n:
		return fmt.Sprintf("listing the atoms lost %d workers: %s", len(b.listLost), strings.Join(b.listLost, ", "))
	case len(b.setupLost) >= n:
		return fmt.Sprintf("setup lost %d workers: %s", len(b.setupLost), strings.Join(b.setupLost, ", "))
	}
	n := len(b.setupFail)
	if n == 0 || b.unfinished == 0 {
		return ""
	}
	if n < setupTries {
		if b.matching > 0 || !b.waits() {
			return ""
		}
		if !slices.ContainsFunc(b.bindings, func(g *binding) bool { return g.setup == setupFailed && !g.sess.draining }) {
			return "" // those that failed are gone: another may come
		}
	}
	if n == 1 {
		return "setup failed on " + b.setupFail[0]
	}
	return fmt.Sprintf("setup failed on %d workers; on %s", n, b.setupFail[n-1])
}

// hopelessCode says who must act on a build that is hopeless: whoever wrote its setup, or whoever runs the workers.
func (b *build) hopelessCode() towpath.Code {
	if n := b.lostLimit(); len(b.listLost) >= n || len(b.setupLost) >= n {
		return towpath.CodeUnavailable
	}
	return towpath.CodeConfig
}

// verdict is how a build ends. The code says who must act on one that is errored.
type verdict struct {
	state  towpath.BuildState
	code   towpath.Code
	reason string
}

func errored(code towpath.Code, reason string) verdict {
	return verdict{towpath.BuildErrored, code, reason}
}

// result is what the results of the atoms amount to.
func (b *build) result() verdict {
	n := b.tally()
	text := func(k int, what string) string { return fmt.Sprintf("%d of %d atoms %s", k, n.Total, what) }
	switch {
	case n.Total == 0:
		return verdict{towpath.BuildPassed, "", "no atoms"}
	case n.Failed > 0 && n.Lost > 0:
		return verdict{towpath.BuildFailed, "", text(n.Failed, "failed") + ", " + text(n.Lost, "lost")}
	case n.Failed > 0:
		return verdict{towpath.BuildFailed, "", text(n.Failed, "failed")}
	case n.Lost > 0:
		for _, a := range b.atoms {
			if a.state == towpath.AtomLost {
				return errored(towpath.CodeUnavailable, fmt.Sprintf("%s; %s: %s", text(n.Lost, "lost"), a.name, a.reason))
			}
		}
	case n.Flaky > 0:
		return verdict{towpath.BuildPassed, "", text(n.Flaky, "flaky")}
	case n.Skipped == n.Total && b.cases == 0 && !b.job.AllowEmpty:
		return errored(towpath.CodeConfig, fmt.Sprintf("no tests: %d atoms were listed and none of them has a test; if that is right, set allow_empty: true", n.Total))
	}
	return verdict{towpath.BuildPassed, "", ""}
}

func (b *build) tally() towpath.Counts {
	n := towpath.Counts{Total: len(b.atoms)}
	for _, a := range b.atoms {
		n.AddAtom(a.state)
		if !a.state.Final() {
			n.Unfinished++
		}
	}
	return n
}

// finish ends a build at once. Atoms without a result are canceled with the reason, attempts are told to end and wind
// down, and teardowns follow where something ran. A build that ends for want of means has failed if a test failed.
func (s *State) finish(now time.Time, b *build, v verdict) {
	state, code, reason := v.state, v.code, v.reason
	for len(b.decided) > 0 && s.fail == nil {
		s.say(now, b, b.atoms[b.decided[0]])
	}
	if b.unfinished > 0 && s.bug != bugForgetFinish {
		for _, a := range b.atoms {
			if !a.state.Final() {
				s.emit(now, b.number, towpath.AtomFinished{Atom: a.index, State: towpath.AtomCanceled, Reason: reason})
			}
		}
	}
	n := b.tally()
	if state == towpath.BuildErrored && n.Failed > 0 {
		state, code = towpath.BuildFailed, ""
	}
	for _, a := range slices.Clone(b.active) {
		if a.kind != towpath.AttemptTeardown && s.bug != bugNoStop {
			s.stop(now, a, towpath.StopCanceled, either(reason, "its build has ended"))
		}
	}
	e := towpath.BuildFinished{State: state, Reason: reason, Code: code, Atoms: n, Fixed: b.fixed}
	e.LowerBound, e.Floor = b.bound(now)
	if b.job.Teardown != "" && !b.tearing {
		for _, g := range b.bindings {
			if b.owesTeardown(g) || g.active > 0 {
				e.TeardownBy = s.teardownBy(now, b).Add(s.cfg.StopGrace)
			}
		}
	}
	s.emit(now, b.number, e)
}

// bound is the shortest time in which any schedule on these slots could have run the atoms, by the best that is known of
// each, and the atom that alone takes as long, if one does. It is never more than the build took.
func (b *build) bound(now time.Time) (time.Duration, string) {
	if b.begun.IsZero() {
		return 0, ""
	}
	var sum, longest time.Duration
	floor := ""
	for _, a := range b.atoms {
		took, span := a.took, a.longest
		if took == 0 && a.verdict == "" { // one that was remembered, or has nothing to run, took no time
			took, span = a.est.Mean, a.est.Mean
		}
		sum += took
		if span > longest && !b.shares() {
			longest, floor = span, a.name
		}
	}
	sum -= b.overlap
	for _, a := range b.active {
		sum -= a.overlap(now)
	}
	share, whole := max(0, sum)/time.Duration(max(1, b.peak)), max(0, now.Sub(b.begun))
	if longest >= share {
		return min(longest, whole), floor
	}
	return min(share, whole), ""
}

// overlap is by how much what the atoms of one command took exceeds what the command took up to now: it ran several at
// once, within the one place that it has.
func (a *attempt) overlap(now time.Time) time.Duration {
	if a.kind != towpath.AttemptRun || !a.started || a.build.job.PerAtom {
		return 0
	}
	return max(0, a.took-now.Sub(a.since))
}

// giveUpTeardown ends the wait for teardowns that did not come to their end.
func (s *State) giveUpTeardown(now time.Time, b *build) {
	if b.state.Final() {
		s.emit(now, b.number, towpath.TeardownGivenUp{})
		return
	}
	for _, a := range slices.Clone(b.active) {
		s.stop(now, a, towpath.StopUnneeded, "teardown took too long")
	}
	s.finish(now, b, b.result())
}
