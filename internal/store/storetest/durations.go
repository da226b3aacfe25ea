package storetest

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

func (f *fixture) estimate(atom string) towpath.Estimate {
	f.Helper()
	e, err := f.Estimates(f.Context(), "project", "test", []string{atom}, f.now)
	f.must(err)
	return e[atom]
}

func testDurations(f *fixture) {
	f.register()
	run := func(took time.Duration) { f.pass(f.submit(towpath.Job{}, "a"), 0, took) }
	if e := f.estimate("a"); e.Passes != 0 || e.Mean != 0 {
		f.Errorf("of an atom that never ran: %+v", e)
	}
	run(10 * time.Second)
	f.same("one", f.estimate("a"), towpath.Estimate{Mean: 10 * time.Second, Passes: 1})
	run(20 * time.Second)
	// 10 + 0.3·10, and 0.3·10 from a deviation of 0.
	f.same("two", f.estimate("a"), towpath.Estimate{Mean: 13 * time.Second, Dev: 3 * time.Second, Passes: 2})
	run(13 * time.Second)
	f.same("three", f.estimate("a"), towpath.Estimate{Mean: 13 * time.Second, Dev: 2100 * time.Millisecond, Passes: 3})
	for range 30 {
		run(time.Second)
	}
	f.same("only the last twenty count", f.estimate("a"), towpath.Estimate{Mean: time.Second, Passes: 20})
	f.now = f.now.Add(31 * 24 * time.Hour)
	if e := f.estimate("a"); e.Passes != 0 {
		f.Errorf("after a month: %+v", e)
	}
	run(50 * time.Microsecond)
	f.same("short ones", f.estimate("a"), towpath.Estimate{Mean: 50 * time.Microsecond, Passes: 1})
}

func testSamples(f *fixture) {
	f.register()
	for _, c := range []struct {
		name   string
		report towpath.AtomReport
		state  towpath.AtomState
	}{
		{"cached", towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second, Cached: true}, towpath.AtomPassed},
		{"failed", towpath.AtomReport{Outcome: towpath.OutcomeFailed, Duration: time.Second}, towpath.AtomFailed},
		{"skipped", towpath.AtomReport{Outcome: towpath.OutcomeSkipped, Duration: time.Second}, towpath.AtomSkipped},
	} {
		n := f.submit(towpath.Job{}, c.name)
		id := f.offer(n, whole(0)...)
		f.report(n, id, towpath.Unit{}, c.report)
		f.commit(n, towpath.AtomFinished{Atom: 0, State: c.state, Verdict: id})
		if e := f.estimate(c.name); e.Passes != 0 {
			f.Errorf("%s: %+v", c.name, e)
		}
	}
	// A package without tests must not be taken for one that nobody has run yet.
	n := f.submit(towpath.Job{}, "empty")
	id := f.offer(n, whole(0)...)
	f.report(n, id, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomeSkipped})
	f.commit(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomSkipped, Verdict: id})
	f.same("an atom with nothing in it", f.estimate("empty"), towpath.Estimate{Mean: 10 * time.Microsecond})

	n = f.submit(towpath.Job{})
	f.commit(n, towpath.AtomsListed{Atoms: []towpath.ListedAtom{{Name: "selected", Cases: []string{"x"}}}})
	id = f.offer(n, towpath.OfferedUnit{Cases: []string{"x"}})
	f.report(n, id, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second})
	f.commit(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: id})
	if e := f.estimate("selected"); e.Passes != 0 {
		f.Errorf("some cases only: %+v", e)
	}
}

func testSplitDurations(f *fixture) {
	f.register()
	timed := func(name string, took time.Duration) towpath.Case {
		return towpath.Case{Name: name, State: towpath.CasePassed, Duration: took}
	}
	job := towpath.Job{Report: towpath.Report{Kind: towpath.ReportGoTest}}
	n := f.submit(job, "a", "short")
	f.pass(n, 0, 6*time.Second, timed("TestOne", 4*time.Second), timed("TestOne/sub", 4*time.Second), timed("TestTwo", 2*time.Second))
	f.pass(n, 1, time.Second, timed("TestOne", time.Second))
	f.same("whole", f.estimate("a").Tests, []towpath.TestEstimate{{Name: "TestOne", Mean: 4 * time.Second}, {Name: "TestTwo", Mean: 2 * time.Second}})
	if e := f.estimate("short"); e.Tests != nil {
		f.Errorf("tests of an atom that is not worth splitting: %+v", e)
	}

	n = f.submit(job, "a")
	f.commit(n, towpath.AtomSplit{Atom: 0, Parts: []towpath.Part{{Index: 0, Of: 2}, {Index: 1, Of: 2, Rest: true}}})
	one, two := f.offer(n, part(1)...), f.offer(n, part(2)...)
	f.report(n, one, towpath.Unit{Part: 1}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: 5 * time.Second}, timed("TestOne", 5*time.Second))
	f.report(n, two, towpath.Unit{Part: 2}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: 3 * time.Second}, timed("TestTwo", 2*time.Second))
	f.commit(n, ended(one), ended(two), towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: two})
	e := f.estimate("a")
	f.same("sum of the parts", e.Mean, 6*time.Second+600*time.Millisecond)
	f.same("tests", e.Tests, []towpath.TestEstimate{{Name: "TestOne", Mean: 4300 * time.Millisecond}, {Name: "TestTwo", Mean: 2 * time.Second}})
	if a := f.atoms(n)[0]; a.Duration != 8*time.Second {
		f.Errorf("duration: %v", a.Duration)
	}
}

func testManyEstimates(f *fixture) {
	f.register()
	const atoms = 300
	var names []string
	for i := range atoms {
		names = append(names, fmt.Sprintf("atom-%03d", i))
	}
	n := f.submit(towpath.Job{}, names...)
	for i := range atoms {
		f.pass(n, i, time.Duration(i+1)*time.Second)
	}
	wanted := append([]string{"never seen"}, names[:200]...)
	e, err := f.Estimates(f.Context(), "project", "test", wanted, f.now)
	f.must(err)
	if len(e) != 200 {
		f.Fatalf("%d estimates, want 200", len(e))
	}
	for i, name := range names[:200] {
		if e[name].Mean != time.Duration(i+1)*time.Second {
			f.Fatalf("%s: %+v", name, e[name])
		}
	}
}

func testFixedCost(f *fixture) {
	f.register()
	read := func() time.Duration {
		fixed, err := f.FixedCost(f.Context(), "project", "test")
		f.must(err)
		return fixed
	}
	f.same("before a build", read(), time.Duration(0))
	for _, fixed := range []time.Duration{700 * time.Millisecond, 0, 300 * time.Millisecond} {
		n := f.submit(towpath.Job{}, "a")
		f.pass(n, 0, time.Second)
		f.commit(n, towpath.BuildFinished{State: towpath.BuildPassed, Fixed: fixed})
		if fixed > 0 {
			f.same("after a build", read(), fixed)
		}
	}
	f.same("after builds that learned and one that did not", read(), 300*time.Millisecond)
}
