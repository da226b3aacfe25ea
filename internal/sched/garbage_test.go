package sched_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

// TestNoInputBreaksTheState gives inputs that no sound agent would give, in any order: each is answered by events or a
// refusal, and leaves the state whole.
func TestNoInputBreaksTheState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 3))
		ids := 0
		s := sched.New(sched.Config{NewID: func() string { ids++; return fmt.Sprint("t", ids) }})
		now := t0
		var log []towpath.Event
		for step := range 250 {
			now = now.Add(time.Duration(r.Int64N(int64(3 * time.Second))))
			if r.IntN(60) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(time.Hour))))
			}
			in := nonsense(r, ids)
			events, err := s.Step(now, in)
			if towpath.CodeOf(err) == towpath.CodeInternal {
				t.Fatalf("seed %d, step %d: %#v: %v", seed, step, in, err)
			}
			log = append(log, events...)
			if err := s.Check(now); err != nil {
				t.Fatalf("seed %d, step %d: %#v: %v", seed, step, in, err)
			}
		}
		again := sched.New(sched.Config{})
		for i, e := range log {
			if err := again.Apply(e); err != nil {
				t.Fatalf("seed %d: replay event %d: %v", seed, i, err)
			}
		}
		if string(again.Dump()) != string(s.Dump()) {
			t.Fatalf("seed %d: replay gives another state", seed)
		}
	}
}

func nonsense(r *rand.Rand, ids int) towpath.Input {
	session := towpath.SessionID(fmt.Sprint("s", r.IntN(5)))
	attempt := towpath.AttemptID(fmt.Sprint("t", max(1, ids-r.IntN(6))))
	atom, part := r.IntN(8)-1, 0
	if r.IntN(3) == 0 {
		part = r.IntN(5) - 1
	}
	outcome := []towpath.Outcome{
		towpath.OutcomePassed, towpath.OutcomeFailed, towpath.OutcomeTimedOut, towpath.OutcomeSkipped, towpath.OutcomeCanceled,
		towpath.OutcomeUnclear, towpath.OutcomeNotSplit, towpath.OutcomeErrored, "", "made up",
	}[r.IntN(10)]
	reason := []string{"", "why", "two\nlines"}[r.IntN(3)]
	switch r.IntN(14) {
	case 0:
		return nonsenseSubmit(r)
	case 1, 2:
		return towpath.Hello{Session: session, Agent: "w", Slots: r.IntN(4), Labels: []string{"a"}[:r.IntN(2)], Speed: r.Float64()*9 - 1}
	case 3:
		return towpath.Beat{Session: session}
	case 4:
		if r.IntN(3) > 0 {
			return towpath.Tick{}
		}
		return towpath.Drain{Session: session}
	case 5:
		if r.IntN(3) > 0 {
			return towpath.Tick{}
		}
		return towpath.Goodbye{Session: session, Reason: reason}
	case 6:
		return towpath.Started{Session: session, Attempt: attempt}
	case 7, 8:
		return towpath.AtomBegan{Session: session, Attempt: attempt, Atom: atom, Part: part}
	case 9, 10:
		report := towpath.AtomReport{Outcome: outcome, Reason: reason, Duration: time.Duration(r.Int64N(1e10) - 1e9)}
		if r.IntN(2) == 0 {
			report.Failed = []string{"c", ""}
			report.Cases = []towpath.Case{{Name: "c", State: towpath.CaseFailed}}
			report.Counts.Unfinished = r.IntN(2)
		}
		return towpath.AtomDone{Session: session, Attempt: attempt, Atom: atom, Part: part, Report: report}
	case 11:
		done := towpath.Done{Session: session, Attempt: attempt, Outcome: outcome, Reason: reason}
		if r.IntN(2) == 0 {
			done.Atoms = []string{"x", "y", "z", "x", ""}[r.IntN(2) : 3+r.IntN(2)]
		}
		return done
	case 12:
		in := towpath.Recalled{Session: session, Attempt: attempt}
		for range r.IntN(5) {
			in.Units = append(in.Units, towpath.Unit{Atom: r.IntN(8) - 1, Part: r.IntN(3) * part})
		}
		return in
	}
	if r.IntN(4) > 0 {
		return towpath.Tick{}
	}
	return towpath.Cancel{Build: towpath.BuildNumber(r.IntN(5))}
}

func nonsenseSubmit(r *rand.Rand) towpath.Input {
	in := towpath.Submit{Build: towpath.BuildNumber(r.IntN(12))}
	j := &in.Job
	in.Estimates = map[string]towpath.Estimate{}
	for i := range r.IntN(7) {
		name := fmt.Sprint("p", i)
		j.Atoms.List = append(j.Atoms.List, name)
		e := towpath.Estimate{Mean: time.Duration(r.Int64N(1e11) - 1e9), Dev: time.Duration(r.Int64N(1e9) - 1e8), Passes: r.IntN(9)}
		for k := range r.IntN(5) {
			e.Tests = append(e.Tests, towpath.TestEstimate{Name: fmt.Sprint("T", k), Mean: time.Duration(r.Int64N(1e10) - 1e9)})
		}
		in.Estimates[name] = e
	}
	if r.IntN(4) == 0 {
		j.Atoms = towpath.AtomSource{Command: "ls"}
	}
	if r.IntN(6) == 0 {
		in.Only = []towpath.Selection{{Atom: "q", Cases: []string{"c"}}}
	}
	j.Slots, j.PerAtom, j.FailFast, j.AllowEmpty = r.IntN(4)-1, r.IntN(2) == 0, r.IntN(4) == 0, r.IntN(2) == 0
	j.Batch.Count, j.Parallel.Max, j.Parallel.PerAgent = r.IntN(4)-1, r.IntN(4)-1, r.IntN(4)-1
	j.Batch.Target = time.Duration(r.Int64N(1e10) - 5e9)
	j.Retries = towpath.Retries{Failed: r.IntN(4) - 1, Lost: r.IntN(4) - 1}
	if r.IntN(2) == 0 {
		j.Setup, j.Teardown = "s", "t"
	}
	if r.IntN(2) == 0 {
		j.Report.Kind = towpath.ReportGoTest
	}
	if r.IntN(3) == 0 {
		j.Quarantine = []towpath.Quarantine{{Pattern: "p1"}, {Pattern: "*::c"}}
	}
	j.Labels = []string{"a", "b"}[:r.IntN(3)]
	return in
}
