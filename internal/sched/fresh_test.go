package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

// TestAnAtomThatFailedRunsAnewAndRememberedOnesTakeNoTime runs two atoms that used to take a minute: of one the result is
// remembered, the other fails first.
func TestAnAtomThatFailedRunsAnewAndRememberedOnesTakeNoTime(t *testing.T) {
	t.Parallel()
	ids := 0
	s := sched.New(sched.Config{NewID: func() string { ids++; return fmt.Sprint("a", ids) }})
	now := t0
	var offers []towpath.AttemptOffered
	var finished *towpath.BuildFinished
	step := func(in towpath.Input) {
		t.Helper()
		now = now.Add(10 * time.Millisecond)
		out, err := s.Step(now, in)
		if err != nil {
			t.Fatalf("%T: %v", in, err)
		}
		for _, e := range out {
			switch b := e.Body.(type) {
			case towpath.AttemptOffered:
				offers = append(offers, b)
			case towpath.BuildFinished:
				finished = &b
			}
		}
	}
	usual := towpath.Estimate{Mean: time.Minute, Passes: 9}
	step(towpath.Hello{Session: "s", Agent: "w", Slots: 1})
	step(towpath.Submit{
		Build: 1, Job: towpath.Job{Atoms: towpath.AtomSource{List: []string{"x", "y"}}, Run: "run", Batch: towpath.Batch{Count: 1}, Retries: towpath.Retries{Failed: 1}},
		Estimates: map[string]towpath.Estimate{"x": usual, "y": usual},
	})
	fresh := ""
	for i := 0; i < len(offers); i++ {
		o, u := offers[i], offers[i].Units[0]
		fresh += fmt.Sprintf("%s %v ", u.Name, u.Fresh)
		r := towpath.AtomReport{Outcome: towpath.OutcomePassed, Cached: true}
		switch {
		case u.Name == "y" && !u.Fresh:
			r = towpath.AtomReport{Outcome: towpath.OutcomeFailed, Reason: "it leaks", Duration: time.Second}
		case u.Name == "y":
			r = towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second}
		}
		step(towpath.Started{Session: "s", Attempt: o.Attempt})
		step(towpath.AtomBegan{Session: "s", Attempt: o.Attempt, Atom: u.Atom})
		step(towpath.AtomDone{Session: "s", Attempt: o.Attempt, Atom: u.Atom, Report: r})
		step(towpath.Done{Session: "s", Attempt: o.Attempt, Outcome: r.Outcome})
	}
	if fresh != "x false y false y true " {
		t.Errorf("offered: %s", fresh)
	}
	if finished == nil || finished.State != towpath.BuildPassed || finished.LowerBound > 2*time.Second {
		t.Errorf("the end: %+v", finished)
	}
}
