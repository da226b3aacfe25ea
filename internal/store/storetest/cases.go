package storetest

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// caseStates gives "atom/case" → state of all cases of a build.
func (f *fixture) caseStates(n towpath.BuildNumber, atom int) map[string]towpath.CaseState {
	f.Helper()
	states := map[string]towpath.CaseState{}
	for _, c := range collect(f, f.Cases(f.Context(), n, atom)) {
		states[c.Atom+"/"+c.Name] = c.State
	}
	return states
}

func testFlakyCases(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a")
	first := f.offer(n, whole(0)...)
	failed := kase("flaky", towpath.CaseFailed)
	failed.Message = "it broke"
	f.report(n, first, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomeFailed, Duration: 10 * time.Second},
		kase("good", towpath.CasePassed), failed, kase("left out", towpath.CaseSkipped))
	f.commit(n, ended(first))
	again := f.offer(n, towpath.OfferedUnit{Cases: []string{"flaky"}})
	f.report(n, again, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second}, kase("flaky", towpath.CasePassed))
	f.commit(n, ended(again), towpath.AtomFinished{Atom: 0, State: towpath.AtomFlaky, Verdict: again})
	f.same("cases", f.caseStates(n, -1), map[string]towpath.CaseState{
		"a/good": towpath.CasePassed, "a/flaky": towpath.CaseFlaky, "a/left out": towpath.CaseSkipped,
	})
	for _, c := range collect(f, f.Cases(f.Context(), n, 0)) {
		if c.Name == "flaky" && (c.Message != "it broke" || c.Attempts != 2) {
			f.Errorf("flaky case: %+v", c)
		}
	}
	if c := f.build(n).Cases; c != (towpath.Counts{Total: 3, Passed: 1, Flaky: 1, Skipped: 1}) {
		f.Errorf("counts: %+v", c)
	}
}

func testUnfinishedCasesAreNotFlaky(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a")
	first := f.offer(n, whole(0)...)
	f.report(n, first, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomeUnclear}, kase("cut off", towpath.CaseUnfinished), kase("crashed", towpath.CaseFailed))
	f.commit(n, ended(first))
	second := f.offer(n, whole(0)...)
	f.report(n, second, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomeUnclear}, kase("crashed", towpath.CaseUnfinished))
	f.commit(n, ended(second))
	third := f.offer(n, whole(0)...)
	f.report(n, third, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomePassed}, kase("cut off", towpath.CasePassed), kase("crashed", towpath.CasePassed))
	f.commit(n, ended(third), towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: third})
	f.same("cases", f.caseStates(n, -1), map[string]towpath.CaseState{"a/cut off": towpath.CasePassed, "a/crashed": towpath.CaseFlaky})
}

func testQuarantine(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{Quarantine: []towpath.Quarantine{{Pattern: "a::known"}, {Pattern: "b"}}}, "a", "b")
	id := f.offer(n, whole(0, 1)...)
	f.report(n, id, towpath.Unit{Atom: 0}, towpath.AtomReport{Outcome: towpath.OutcomeFailed},
		kase("known", towpath.CaseFailed), kase("new", towpath.CaseFailed), kase("good", towpath.CasePassed))
	f.report(n, id, towpath.Unit{Atom: 1}, towpath.AtomReport{Outcome: towpath.OutcomeFailed}, kase("x", towpath.CaseFailed), kase("y", towpath.CaseUnfinished))
	f.commit(n, ended(id), towpath.AtomFinished{Atom: 0, State: towpath.AtomFailed, Verdict: id},
		towpath.AtomFinished{Atom: 1, State: towpath.AtomQuarantined, Verdict: id})
	f.same("cases", f.caseStates(n, -1), map[string]towpath.CaseState{
		"a/known": towpath.CaseQuarantined, "a/new": towpath.CaseFailed, "a/good": towpath.CasePassed,
		"b/x": towpath.CaseQuarantined, "b/y": towpath.CaseQuarantined,
	})
	if c := f.build(n).Cases; c != (towpath.Counts{Total: 5, Passed: 1, Failed: 1, Quarantined: 3}) {
		f.Errorf("counts: %+v", c)
	}
}

func testParts(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a")
	f.commit(n, towpath.AtomSplit{Atom: 0, Parts: []towpath.Part{{Index: 0, Of: 2}, {Index: 1, Of: 2, Rest: true}}})
	one, two := f.offer(n, part(1)...), f.offer(n, part(2)...)
	f.report(n, one, towpath.Unit{Part: 1}, towpath.AtomReport{Outcome: towpath.OutcomePassed}, kase("TestOne", towpath.CasePassed))
	f.commit(n, ended(one))
	f.same("one part still runs", f.states(n), []towpath.AtomState{towpath.AtomRunning})
	f.report(n, two, towpath.Unit{Part: 2}, towpath.AtomReport{Outcome: towpath.OutcomeFailed}, kase("TestTwo", towpath.CaseFailed))
	f.commit(n, ended(two))
	f.same("parts of it", f.caseStates(n, 0), map[string]towpath.CaseState{"a/TestOne": towpath.CasePassed, "a/TestTwo": towpath.CaseFailed})
	all := f.offer(n, whole(0)...)
	f.report(n, all, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: 5 * time.Second},
		kase("TestOne", towpath.CasePassed), kase("TestTwo", towpath.CasePassed))
	f.commit(n, ended(all), towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: all, NeverSplit: true})
	f.same("the whole", f.caseStates(n, 0), map[string]towpath.CaseState{"a/TestOne": towpath.CasePassed, "a/TestTwo": towpath.CasePassed})
	if c := f.build(n).Cases; c != (towpath.Counts{Total: 2, Passed: 2}) {
		f.Errorf("counts: %+v", c)
	}
	e, err := f.Estimates(f.Context(), "project", "test", []string{"a"}, f.now)
	f.must(err)
	if !e["a"].NeverSplit || e["a"].Mean != 5*time.Second {
		f.Errorf("estimate: %+v", e["a"])
	}
}

func testManyCases(f *fixture) {
	f.register()
	const atoms = 450
	var names []string
	for i := range atoms {
		names = append(names, fmt.Sprintf("atom-%03d", i))
	}
	n := f.submit(towpath.Job{}, names...)
	for i := range atoms {
		f.pass(n, i, time.Millisecond, kase("x", towpath.CasePassed), kase("y", towpath.CasePassed))
	}
	all := collect(f, f.Cases(f.Context(), n, -1))
	if len(all) != 2*atoms {
		f.Fatalf("%d cases, want %d", len(all), 2*atoms)
	}
	for i, c := range all {
		if c.Atom != names[i/2] || c.AtomIndex != i/2 {
			f.Fatalf("case %d: %+v", i, c)
		}
	}
}

func testHistory(f *fixture) {
	f.register()
	var numbers []towpath.BuildNumber
	for i := range 4 {
		n := f.submit(towpath.Job{}, "other", "a")
		id := f.offer(n, whole(1)...)
		state := []towpath.CaseState{towpath.CasePassed, towpath.CaseFailed}[i%2]
		f.report(n, id, towpath.Unit{Atom: 1}, towpath.AtomReport{Outcome: towpath.OutcomePassed}, kase("x", state), kase("y", towpath.CasePassed))
		f.commit(n, ended(id))
		numbers = append(numbers, n)
	}
	other := f.submit(towpath.Job{Name: "another job"}, "a")
	f.pass(other, 0, time.Second, kase("x", towpath.CaseSkipped))
	past := collect(f, f.History(f.Context(), numbers[2], "a", "x"))
	var builds []towpath.BuildNumber
	var states []towpath.CaseState
	for _, p := range past {
		builds, states = append(builds, p.Build), append(states, p.State)
		if p.At.IsZero() {
			f.Errorf("no time: %+v", p)
		}
	}
	f.same("builds", builds, []towpath.BuildNumber{numbers[2], numbers[1], numbers[0]})
	f.same("states", states, []towpath.CaseState{towpath.CasePassed, towpath.CaseFailed, towpath.CasePassed})
	if past := collect(f, f.History(f.Context(), numbers[2], "a", "no such case")); len(past) != 0 {
		f.Errorf("history of nothing: %+v", past)
	}
}
