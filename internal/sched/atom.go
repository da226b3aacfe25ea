package sched

import (
	"fmt"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

type queued uint8

const (
	inNone  queued = iota
	inQueue        // in build.queue
	inAlone        // in build.alone
)

// unit is where a whole atom, or one part of it, stands.
type unit struct {
	attempt *attempt // it is in; nil if in none
	began   bool     // in that attempt
	queued  queued
	alone   bool     // it must be a batch of its own
	suspect bool     // it is charged with a loss: one such at a time on a session
	cases   []string // only these are to run
	mean    time.Duration
	dev     time.Duration
}

// atom is one atom of a build.
type atom struct {
	index      int
	name       string
	cases      []string
	est        towpath.Estimate
	quarantine bool
	whole      unit
	parts      []part
	unsplit    bool // its parts could not stand for it
	never      bool // and never will

	state   towpath.AtomState
	reason  string
	decided bool // next and reason are known, and not yet said
	next    towpath.AtomState
	verdict towpath.AttemptID

	fails   int
	lastly  string   // the reason of the last failure
	losses  []string // agents on which it was lost, or did not run
	notRun  string   // why it did not run, if a worker's loss is not why
	took    time.Duration
	longest time.Duration
}

// part is one part of a split atom.
type part struct {
	towpath.Part
	unit unit
	done bool
	skip bool // nothing ran in it
}

// unit finds where a unit stands; nil if there is no such.
func (b *build) unit(w towpath.Unit) *unit {
	if w.Atom < 0 || w.Atom >= len(b.atoms) {
		return nil
	}
	a := b.atoms[w.Atom]
	switch {
	case w.Part == 0:
		return &a.whole
	case w.Part < 0 || w.Part > len(a.parts):
		return nil
	}
	return &a.parts[w.Part-1].unit
}

// quarantines says whether each case that failed is in quarantine, and takes those out of what is to be rerun. It looks
// at the entries in force when the build began.
func (b *build) quarantines(a *atom, r *towpath.AtomReport) bool {
	if len(b.job.Quarantine) == 0 || r.Outcome != towpath.OutcomeFailed {
		return false
	}
	failed, covered := 0, 0
	var rest []string
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.State != towpath.CaseFailed && c.State != towpath.CaseQuarantined {
			continue
		}
		failed++
		switch {
		case towpath.Quarantined(b.job.Quarantine, a.name, c.Name, b.since):
			covered++
		case c.Select != "":
			rest = append(rest, c.Select)
		}
	}
	if covered > 0 && len(r.Failed) > 0 {
		r.Failed = rest
	}
	return failed > 0 && failed == covered
}

// decide gives an atom its result, to be said when the step is settled.
func (b *build) decide(a *atom, state towpath.AtomState, reason string, verdict towpath.AttemptID) {
	if a.decided || a.state.Final() {
		return
	}
	if a.quarantine && (state == towpath.AtomPassed || state == towpath.AtomFailed || state == towpath.AtomFlaky || state == towpath.AtomLost) {
		text := "in quarantine: " + string(state)
		if reason != "" {
			text += ": " + reason
		}
		state, reason = towpath.AtomQuarantined, text
	}
	a.decided = true
	a.next, a.reason, a.verdict = state, reason, verdict
	b.decided = append(b.decided, a.index)
}

// judge takes in one accepted report. The unit has left its attempt.
func (b *build) judge(t *attempt, w towpath.Unit, e *towpath.AtomReported) {
	a := b.atoms[w.Atom]
	r := &e.Report
	if a.decided || a.state.Final() {
		return
	}
	out, reason := r.Outcome, oneLine(r.Reason)
	if out == towpath.OutcomeCanceled && t.stopCause == towpath.StopLimit {
		out, reason = towpath.OutcomeTimedOut, t.stopReason
	}
	switch out {
	case towpath.OutcomeErrored, towpath.OutcomeCanceled:
		if reason == "" {
			reason = "outcome " + string(out)
		}
		b.charge(w, t, reason)
		return
	case towpath.OutcomePassed, towpath.OutcomeFailed, towpath.OutcomeTimedOut, towpath.OutcomeSkipped,
		towpath.OutcomeUnclear, towpath.OutcomeNotSplit:
	default:
		b.charge(w, t, fmt.Sprintf("unknown outcome %q", out))
		return
	}
	if w.Part > 0 {
		b.judgePart(t, a, w, out, r)
		return
	}
	u := &a.whole
	switch out {
	case towpath.OutcomePassed:
		a.took, a.longest = r.Duration, max(a.longest, r.Duration)
		t.took += r.Duration
		if a.est.Passes == 0 && !r.Cached && len(u.cases) == 0 {
			b.newSum += r.Duration
			b.newCount++
		}
		switch {
		case a.fails > 0:
			b.decide(a, towpath.AtomFlaky, fmt.Sprintf("failed, then passed on the same code (%s)", a.lastly), t.id)
		case a.unsplit:
			a.never = true
			b.decide(a, towpath.AtomPassed, "it passed whole and not in parts: it cannot be split", t.id)
		default:
			b.decide(a, towpath.AtomPassed, "", t.id)
		}
	case towpath.OutcomeSkipped:
		if a.fails > 0 {
			b.decide(a, b.failedState(e), fmt.Sprintf("%s; its rerun ran nothing", a.lastly), t.id)
			return
		}
		b.decide(a, towpath.AtomSkipped, reason, t.id)
	case towpath.OutcomeUnclear:
		if len(t.units) > 1 {
			u.alone = true
			b.put(w)
			return
		}
		b.failed(t, a, w, e, either(reason, "it is not clear what it did, even alone"))
	case towpath.OutcomeNotSplit:
		b.failed(t, a, w, e, either(reason, "reported as not splittable, and it was not split"))
	case towpath.OutcomeFailed, towpath.OutcomeTimedOut:
		b.failed(t, a, w, e, either(reason, string(out)))
	case towpath.OutcomeErrored, towpath.OutcomeCanceled:
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// oneLine keeps what others wrote to one line.
func oneLine(t string) string {
	if before, _, ok := strings.Cut(t, "\n"); ok {
		return strings.TrimSpace(before) + " …"
	}
	return t
}

func (b *build) failedState(e *towpath.AtomReported) towpath.AtomState {
	if e.Quarantined {
		return towpath.AtomQuarantined
	}
	return towpath.AtomFailed
}

// failed counts a failure of a whole atom: it runs again as often as the job allows, only what failed if that can be
// told, or the failure stands.
func (b *build) failed(t *attempt, a *atom, w towpath.Unit, e *towpath.AtomReported, reason string) {
	r := &e.Report
	a.fails++
	if a.fails > 1 && b.flawed == bugFlakyPasses {
		b.decide(a, towpath.AtomFlaky, reason, t.id)
		return
	}
	a.lastly = reason
	a.took, a.longest = r.Duration, max(a.longest, r.Duration)
	t.took += r.Duration
	if e.Quarantined {
		state := towpath.AtomQuarantined
		text := "only cases in quarantine failed: " + reason
		if a.fails > 1 {
			text = "failed, then only in cases in quarantine: " + reason
		}
		b.decide(a, state, text, t.id)
		return
	}
	if a.quarantine || a.fails > b.job.Retries.Failed {
		if a.fails > 1 {
			reason = fmt.Sprintf("%s (in each of %d attempts)", reason, a.fails)
		}
		b.decide(a, towpath.AtomFailed, reason, t.id)
		return
	}
	u := &a.whole
	u.alone = true
	if r.Outcome == towpath.OutcomeFailed && len(r.Failed) > 0 && r.Counts.Unfinished == 0 {
		u.cases = r.Failed
	} else if len(u.cases) == 0 {
		u.cases = a.cases
	}
	b.put(w)
}

// judgePart takes in the report of a part. Only passed parts can stand for their atom, and only all together.
func (b *build) judgePart(t *attempt, a *atom, w towpath.Unit, out towpath.Outcome, r *towpath.AtomReport) {
	if a.unsplit {
		return
	}
	p := &a.parts[w.Part-1]
	if out == towpath.OutcomePassed || out == towpath.OutcomeSkipped {
		p.done, p.skip = true, out == towpath.OutcomeSkipped
		a.took += r.Duration
		t.took += r.Duration
		a.longest = max(a.longest, r.Duration)
		skipped := 0
		for i := range a.parts {
			if !a.parts[i].done {
				return
			}
			if a.parts[i].skip {
				skipped++
			}
		}
		if skipped == len(a.parts) {
			b.decide(a, towpath.AtomSkipped, oneLine(r.Reason), t.id)
			return
		}
		b.decide(a, towpath.AtomPassed, "", t.id)
		return
	}
	a.unsplit = true
	a.took = 0
	a.longest = 0
	if out == towpath.OutcomeNotSplit {
		a.never = true
	}
	for i := range a.parts {
		b.leave(&a.parts[i].unit)
	}
	a.whole.alone = true
	a.whole.cases = a.cases
	b.put(towpath.Unit{Atom: w.Atom})
}

// charge holds it against an atom that it had an attempt and no result, and lets it wait again unless that happened
// too often. An empty reason says that its worker was lost.
func (b *build) charge(w towpath.Unit, t *attempt, reason string) {
	a := b.atoms[w.Atom]
	if a.decided || a.state.Final() || w.Part > 0 && a.unsplit {
		return
	}
	a.losses = append(a.losses, t.sess.agent)
	a.notRun = reason
	u := b.unit(w)
	if len(a.losses) >= b.lostLimit() && b.flawed != bugRetryForever {
		text := fmt.Sprintf("lost %d workers: %s", len(a.losses), strings.Join(a.losses, ", "))
		if reason != "" {
			text = fmt.Sprintf("no result in %d attempts, on %s: %s", len(a.losses), strings.Join(a.losses, ", "), reason)
		}
		b.decide(a, towpath.AtomLost, text, t.id)
		return
	}
	u.alone = true
	if reason == "" {
		u.suspect = true
	}
	b.put(w)
}
