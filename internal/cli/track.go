package cli

import (
	"cmp"
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// tracker follows one build by its events. It is what all renderers draw from.
type tracker struct {
	build     towpath.BuildNumber
	job       towpath.Job
	started   time.Time
	listed    bool
	atoms     []trackedAtom
	counts    towpath.Counts // of final atoms; Total counts all that are listed
	attempts  map[towpath.AttemptID]*trackedAttempt
	agents    map[towpath.SessionID]bool
	retrying  int // attempts after the first of their atoms
	finish    *towpath.BuildFinished
	finishAt  time.Time
	lastEvent time.Time
	waiting   string // why nothing can be remembered just now, and so nothing goes on; "" if all is well
}

type trackedAtom struct {
	name     string
	estimate time.Duration
	state    towpath.AtomState
	reason   string
	verdict  towpath.AttemptID
	began    time.Time
	took     time.Duration // by its last report; the sum of its parts if it was split
	split    bool
	attempts int
	cases    bool // a report brought some
}

type trackedAttempt struct {
	number  int
	kind    towpath.AttemptKind
	agent   string
	units   []towpath.OfferedUnit
	offered time.Time
	started time.Time
	done    map[towpath.Unit]bool
	began   map[towpath.Unit]time.Time
}

func newTracker(n towpath.BuildNumber) *tracker {
	return &tracker{build: n, attempts: map[towpath.AttemptID]*trackedAttempt{}, agents: map[towpath.SessionID]bool{}}
}

// apply takes the next event. Events of kinds that it does not follow change nothing.
func (t *tracker) apply(e towpath.Event) {
	t.lastEvent = e.At
	switch b := e.Body.(type) {
	case towpath.BuildSubmitted:
		t.job, t.started = b.Job, e.At
	case towpath.AtomsListed:
		t.listed = true
		t.counts.Total = len(b.Atoms)
		t.atoms = make([]trackedAtom, len(b.Atoms))
		for i, a := range b.Atoms {
			t.atoms[i] = trackedAtom{name: a.Name, estimate: a.Estimate.Mean, state: towpath.AtomPending}
		}
	case towpath.AttemptOffered:
		t.agents[b.Session] = true
		t.attempts[b.Attempt] = &trackedAttempt{
			number: b.Number, kind: b.Kind, agent: b.Agent, units: b.Units, offered: e.At,
			done: map[towpath.Unit]bool{}, began: map[towpath.Unit]time.Time{},
		}
		for _, u := range b.Units {
			if a := t.atom(u.Atom); a != nil {
				a.split = u.Split != nil
				if a.attempts++; a.attempts > 1 && u.Split == nil {
					t.retrying++
				}
			}
		}
	case towpath.AttemptStarted:
		if a := t.attempts[b.Attempt]; a != nil {
			a.started = e.At
		}
	case towpath.AtomStarted:
		if a := t.attempts[b.Attempt]; a != nil {
			a.began[b.Unit] = e.At
		}
		if a := t.atom(b.Atom); a != nil && !a.state.Final() {
			a.state, a.began = towpath.AtomRunning, e.At
		}
	case towpath.AtomReported:
		if a := t.attempts[b.Attempt]; a != nil {
			a.done[b.Unit] = true
		}
		if a := t.atom(b.Atom); a != nil {
			if a.split {
				a.took += b.Report.Duration
			} else {
				a.took = b.Report.Duration
			}
			a.cases = a.cases || b.Report.Counts.Total > 0
		}
	case towpath.AttemptEnded:
		delete(t.attempts, b.Attempt)
	case towpath.AtomFinished:
		if a := t.atom(b.Atom); a != nil {
			a.state, a.reason, a.verdict = b.State, b.Reason, b.Verdict
			t.counts.AddAtom(b.State)
		}
	case towpath.BuildFinished:
		t.finish, t.finishAt = &b, e.At
	}
}

func (t *tracker) atom(i int) *trackedAtom {
	if i < 0 || i >= len(t.atoms) {
		return nil
	}
	return &t.atoms[i]
}

// activity is one thing that runs now.
type activity struct {
	what  string
	since time.Time
}

// running lists what runs now, the longest first.
func (t *tracker) running() []activity {
	var out []activity
	for _, a := range t.attempts {
		if a.started.IsZero() {
			continue
		}
		switch a.kind {
		case towpath.AttemptList:
			out = append(out, activity{"listing the atoms", a.started})
		case towpath.AttemptSetup:
			out = append(out, activity{"setup", a.started})
		case towpath.AttemptTeardown:
			out = append(out, activity{"teardown", a.started})
		case towpath.AttemptRun:
			for _, u := range a.units {
				if since, ok := a.began[u.Unit]; ok && !a.done[u.Unit] {
					out = append(out, activity{u.Name, since})
				}
			}
		}
	}
	slices.SortFunc(out, func(x, y activity) int {
		return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.what, y.what))
	})
	return out
}

// left estimates how long the build will go on, by what its atoms took before. It is false where too little is known.
func (t *tracker) left(now time.Time, slots int) (time.Duration, bool) {
	var known, unknown int
	var sum, longest, knownSum time.Duration
	for i := range t.atoms {
		a := &t.atoms[i]
		if a.estimate > 0 {
			known++
			knownSum += a.estimate
		}
		if a.state.Final() {
			continue
		}
		rest := a.estimate
		if a.estimate == 0 {
			unknown++
			continue
		}
		if a.state == towpath.AtomRunning {
			rest = max(0, rest-now.Sub(a.began))
		}
		sum += rest
		longest = max(longest, rest)
	}
	if known == 0 || unknown > known {
		return 0, false
	}
	sum += time.Duration(unknown) * (knownSum / time.Duration(known))
	return max(longest, sum/time.Duration(max(1, slots))), true
}
