package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestABuildGoesFromListingToItsEnd(t *testing.T) {
	t.Parallel()
	ids := 0
	s := sched.New(sched.Config{NewID: func() string { ids++; return fmt.Sprint("a", ids) }})
	now := t0
	step := func(in towpath.Input) []towpath.Event {
		t.Helper()
		now = now.Add(10 * time.Millisecond)
		out, err := s.Step(now, in)
		if err != nil {
			t.Fatalf("%T: %v", in, err)
		}
		return out
	}
	step(towpath.Hello{Session: "s", Agent: "w", Slots: 2})
	step(towpath.Submit{Build: 1, Job: towpath.Job{
		Atoms: towpath.AtomSource{Command: "ls"}, Setup: "make", Run: "run", Teardown: "clean", Batch: towpath.Batch{Count: 1},
	}})
	kinds := []towpath.AttemptKind{}
	var last towpath.Event
	next := func(out []towpath.Event) (offers []towpath.AttemptOffered) {
		for _, e := range out {
			if o, ok := e.Body.(towpath.AttemptOffered); ok {
				offers = append(offers, o)
				kinds = append(kinds, o.Kind)
			}
			last = e
		}
		return offers
	}
	step(towpath.Started{Session: "s", Attempt: "a1"})
	next(step(towpath.Done{Session: "s", Attempt: "a1", Outcome: towpath.OutcomePassed, Atoms: []string{"x", "y"}}))
	runs := next(step(towpath.Done{Session: "s", Attempt: "a2", Outcome: towpath.OutcomePassed}))
	for _, o := range runs {
		step(towpath.Started{Session: "s", Attempt: o.Attempt})
		for _, u := range o.Units {
			step(towpath.AtomBegan{Session: "s", Attempt: o.Attempt, Atom: u.Atom})
			now = now.Add(time.Second)
			step(towpath.AtomDone{Session: "s", Attempt: o.Attempt, Atom: u.Atom, Report: towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second}})
		}
		next(step(towpath.Done{Session: "s", Attempt: o.Attempt, Outcome: towpath.OutcomePassed}))
	}
	next(step(towpath.Done{Session: "s", Attempt: "a5", Outcome: towpath.OutcomePassed}))
	if got, want := fmt.Sprint(kinds), "[setup run run teardown]"; got != want {
		t.Errorf("attempts after the listing: %s, want %s", got, want)
	}
	f, ok := last.Body.(towpath.BuildFinished)
	if !ok || f.State != towpath.BuildPassed || f.Atoms.Passed != 2 {
		t.Errorf("last event %+v, want a passed build of 2 atoms", last.Body)
	}
	if f.LowerBound != time.Second {
		t.Errorf("lower bound %v, want 1s", f.LowerBound)
	}
	if !s.Release(1) {
		t.Error("the build is not wound down")
	}
}

// TestReportsInTheWorkspaceAreWrittenByOneAttemptAtATime holds that the others wait before they are offered: waiting on the
// agent took from their own time, so that on a wide host sound atoms ran past their limits.
func TestReportsInTheWorkspaceAreWrittenByOneAttemptAtATime(t *testing.T) {
	t.Parallel()
	for glob, want := range map[string]int{"out/*.xml": 1, "": 4} {
		ids := 0
		s := sched.New(sched.Config{NewID: func() string { ids++; return fmt.Sprint("a", ids) }})
		if _, err := s.Step(t0, towpath.Hello{Session: "s", Agent: "w", Slots: 4}); err != nil {
			t.Fatal(err)
		}
		out, err := s.Step(t0, towpath.Submit{Build: 1, Job: towpath.Job{
			Atoms: towpath.AtomSource{List: []string{"a", "b", "c", "d", "e"}}, Run: "run", Batch: towpath.Batch{Count: 1},
			Report: towpath.Report{Kind: towpath.ReportJUnit, Glob: glob},
		}})
		if err != nil {
			t.Fatal(err)
		}
		offered := 0
		for _, e := range out {
			if _, ok := e.Body.(towpath.AttemptOffered); ok {
				offered++
			}
		}
		if offered != want {
			t.Errorf("glob %q: %d attempts were offered to 4 slots, want %d", glob, offered, want)
		}
	}
}

// TestTheLowerBoundKnowsThatOneCommandRunsAtomsAtOnce holds that no bound is above what the build took, which it would be
// if the atoms of a command that runs several at once counted one after the other.
func TestTheLowerBoundKnowsThatOneCommandRunsAtomsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took []time.Duration // each atom's, of a command that takes 4 s
		want time.Duration
	}{
		"one after the other": {[]time.Duration{time.Second, time.Second, time.Second, time.Second}, 4 * time.Second},
		"two at once":         {[]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}, 4 * time.Second},
		"all at once":         {[]time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second}, 4 * time.Second},
		"most of it is idle":  {[]time.Duration{time.Second, 0, 0, 0}, time.Second},
		"a wrong clock":       {[]time.Duration{time.Hour, 0, 0, 0}, 4 * time.Second},
	} {
		for _, over := range []bool{true, false} { // whether the command has ended, or the build is canceled before
			ids := 0
			s := sched.New(sched.Config{NewID: func() string { ids++; return fmt.Sprint("a", ids) }})
			var told []towpath.Event
			step := func(after time.Duration, in towpath.Input) {
				t.Helper()
				out, err := s.Step(t0.Add(after), in)
				if err != nil {
					t.Fatalf("%s: %T: %v", name, in, err)
				}
				told = append(told, out...)
			}
			step(0, towpath.Hello{Session: "s", Agent: "w", Slots: 1})
			step(0, towpath.Submit{Build: 1, Job: towpath.Job{
				Atoms: towpath.AtomSource{List: []string{"a", "b", "c", "d"}}, Run: "run", Batch: towpath.Batch{Count: 4},
			}})
			step(time.Second, towpath.Started{Session: "s", Attempt: "a1"})
			for i, took := range c.took {
				if i == 3 && !over {
					break
				}
				step(5*time.Second, towpath.AtomDone{Session: "s", Attempt: "a1", Atom: i, Report: towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: took}})
			}
			if over {
				step(5*time.Second, towpath.Done{Session: "s", Attempt: "a1", Outcome: towpath.OutcomePassed})
			} else {
				step(5*time.Second, towpath.Cancel{Build: 1, By: "me"})
			}
			found := false
			for _, e := range told {
				f, ok := e.Body.(towpath.BuildFinished)
				found = found || ok
				if ok && (over && f.LowerBound != c.want || f.LowerBound > 4*time.Second) {
					t.Errorf("%s, over %v: the lower bound is %v, want %v", name, over, f.LowerBound, c.want)
				}
			}
			if !found {
				t.Fatalf("%s: the build has not ended", name)
			}
		}
	}
}
