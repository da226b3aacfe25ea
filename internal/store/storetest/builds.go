package storetest

import (
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

func (f *fixture) atoms(n towpath.BuildNumber) []towpath.AtomInfo {
	f.Helper()
	return collect(f, f.Atoms(f.Context(), n))
}

func (f *fixture) states(n towpath.BuildNumber) []towpath.AtomState {
	f.Helper()
	var states []towpath.AtomState
	for _, a := range f.atoms(n) {
		states = append(states, a.State)
	}
	return states
}

func testReadModels(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{Run: "go test"})
	b := f.build(n)
	if b.State != towpath.BuildListing || b.By != "me" || b.Owner.PID != 7 || b.Owner.Socket != "/run/s" || b.Project != "project" || b.Job != "test" || !b.Started.Equal(f.now) {
		f.Errorf("submitted: %+v", b)
	}
	job, err := f.Job(f.Context(), n)
	f.must(err)
	if job.Run != "go test" {
		f.Errorf("job: %+v", job)
	}
	f.commit(n, listed("a", "b", "c"))
	if b = f.build(n); b.State != towpath.BuildRunning || b.Atoms.Total != 3 {
		f.Errorf("listed: %+v", b)
	}
	id := f.offer(n, whole(0, 1)...)
	f.same("states while running", f.states(n), []towpath.AtomState{towpath.AtomRunning, towpath.AtomRunning, towpath.AtomPending})
	f.report(n, id, towpath.Unit{Atom: 0}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: 3 * time.Second},
		kase("x", towpath.CasePassed), kase("y", towpath.CaseSkipped))
	f.report(n, id, towpath.Unit{Atom: 1}, towpath.AtomReport{Outcome: towpath.OutcomeFailed, Reason: "exit status 1", Duration: time.Second},
		kase("x", towpath.CaseFailed))
	f.commit(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: id},
		towpath.AtomFinished{Atom: 1, State: towpath.AtomFailed, Reason: "exit status 1", Verdict: id}, ended(id),
		towpath.AtomFinished{Atom: 2, State: towpath.AtomSkipped, Reason: "fail fast"})
	counts := towpath.Counts{Total: 3, Passed: 1, Failed: 1, Skipped: 1}
	if b = f.build(n); b.Atoms != counts {
		f.Errorf("counts before the end: %+v", b.Atoms)
	}
	f.commit(n, towpath.BuildFinished{State: towpath.BuildFailed, Reason: "1 atom failed", Atoms: counts, LowerBound: 3 * time.Second, Floor: "a"})
	b = f.build(n)
	if b.State != towpath.BuildFailed || b.Reason != "1 atom failed" || b.Atoms != counts || b.LowerBound != 3*time.Second || b.Floor != "a" || !b.Finished.Equal(f.now) {
		f.Errorf("finished: %+v", b)
	}
	if want := (towpath.Counts{Total: 3, Passed: 1, Failed: 1, Skipped: 1}); b.Cases != want {
		f.Errorf("cases: %+v", b.Cases)
	}
	a := f.atoms(n)[1]
	if a.Name != "b" || a.Reason != "exit status 1" || a.Duration != time.Second || a.Verdict != 1 || len(a.Attempts) != 1 || a.Attempts[0] != 1 || a.Agent != "agent" || a.Started.IsZero() || a.Finished.IsZero() {
		f.Errorf("atom: %+v", a)
	}
	attempts := collect(f, f.Attempts(f.Context(), n))
	if len(attempts) != 1 || attempts[0].ID != id || attempts[0].Outcome != towpath.OutcomePassed || attempts[0].Ended.IsZero() {
		f.Errorf("attempts: %+v", attempts)
	}
	f.same("units", attempts[0].Units, []towpath.Unit{{Atom: 0}, {Atom: 1}})
	if _, err := f.Build(f.Context(), n+1); towpath.CodeOf(err) != towpath.CodeNotFound {
		f.Errorf("a build that does not exist: %v", err)
	}
	for _, err := range f.Atoms(f.Context(), n+1) {
		if towpath.CodeOf(err) != towpath.CodeNotFound {
			f.Errorf("atoms of a build that does not exist: %v", err)
		}
	}
}

func testLostAttempt(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a", "b", "c")
	id := f.offer(n, whole(0, 1, 2)...)
	f.commit(n, towpath.UnitsRecalled{Attempt: id, Units: []towpath.Unit{{Atom: 2}}})
	f.same("after a recall", f.states(n), []towpath.AtomState{towpath.AtomRunning, towpath.AtomRunning, towpath.AtomPending})
	f.report(n, id, towpath.Unit{Atom: 0}, towpath.AtomReport{Outcome: towpath.OutcomePassed})
	f.commit(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: id},
		towpath.AttemptEnded{Attempt: id, Outcome: towpath.OutcomeErrored, Lost: true, Reason: "worker gone"})
	f.same("after a loss", f.states(n), []towpath.AtomState{towpath.AtomPassed, towpath.AtomPending, towpath.AtomPending})
	f.offer(n, whole(1)...)
	f.same("offered again", f.states(n), []towpath.AtomState{towpath.AtomPassed, towpath.AtomRunning, towpath.AtomPending})
	f.same("attempts of b", f.atoms(n)[1].Attempts, []int{1, 2})
}

// testForgotten makes the store lose what it remembers between commits by a batch that fails.
func testForgotten(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a", "b")
	forget := func() {
		f.Helper()
		if err := f.Commit(f.Context(), &store.Batch{Owner: f.owner, Events: []towpath.Event{f.event(n+99, towpath.AtomFinished{})}}); err == nil {
			f.Fatal("a batch for no build was taken")
		}
	}
	id := f.offer(n, whole(0, 1)...)
	forget()
	f.report(n, id, towpath.Unit{Atom: 0}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: 4 * time.Second}, kase("x", towpath.CasePassed))
	forget()
	f.commit(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: id})
	forget()
	f.commit(n, towpath.AttemptEnded{Attempt: id, Lost: true, Outcome: towpath.OutcomeErrored})
	f.same("states", f.states(n), []towpath.AtomState{towpath.AtomPassed, towpath.AtomPending})
	b := f.build(n)
	if b.Cases.Passed != 1 || b.Atoms.Passed != 1 {
		f.Errorf("counts: %+v %+v", b.Atoms, b.Cases)
	}
	if a := f.atoms(n)[0]; a.Duration != 4*time.Second || a.Verdict != 1 {
		f.Errorf("atom: %+v", a)
	}
	forget()
	f.commit(n, towpath.BuildFinished{State: towpath.BuildErrored})
	for i, e := range collect(f, f.Events(f.Context(), n, 1)) {
		if e.Seq != int64(i+1) {
			f.Fatalf("event %d has sequence number %d", i+1, e.Seq)
		}
	}
}

func testList(f *fixture) {
	f.register()
	var numbers []towpath.BuildNumber
	for i := range 5 {
		n := f.submit(towpath.Job{Name: []string{"unit", "e2e"}[i%2]}, "a")
		numbers = append(numbers, n)
	}
	f.commit(numbers[0], towpath.BuildFinished{State: towpath.BuildPassed})
	list := func(filter towpath.BuildFilter) (found []towpath.BuildNumber) {
		f.Helper()
		builds, err := f.Builds(f.Context(), filter)
		f.must(err)
		for _, b := range builds {
			found = append(found, b.Number)
		}
		return found
	}
	one, two, three, four, five := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
	f.same("all", list(towpath.BuildFilter{}), []towpath.BuildNumber{five, four, three, two, one})
	f.same("first page", list(towpath.BuildFilter{Limit: 2}), []towpath.BuildNumber{five, four})
	f.same("second page", list(towpath.BuildFilter{Limit: 2, Before: four}), []towpath.BuildNumber{three, two})
	f.same("of a job", list(towpath.BuildFilter{Job: "e2e"}), []towpath.BuildNumber{four, two})
	f.same("unfinished", list(towpath.BuildFilter{Unfinished: true}), []towpath.BuildNumber{five, four, three, two})
	f.same("passed", list(towpath.BuildFilter{State: towpath.BuildPassed}), []towpath.BuildNumber{one})
	f.same("of another project", list(towpath.BuildFilter{Project: "other"}), []towpath.BuildNumber(nil))
}

func testOrphans(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a", "b", "c")
	f.pass(n, 0, time.Second)
	f.offer(n, whole(1)...)
	gone := func(towpath.Owner) bool { return false }
	if o, err := f.Orphans(f.Context(), func(o towpath.Owner) bool { return o.PID == 7 }); err != nil || len(o) != 0 {
		f.Fatalf("orphans of a living owner: %v, %v", o, err)
	}
	o, err := f.Orphans(f.Context(), gone)
	f.must(err)
	if len(o) != 1 || o[0].Build != n || o[0].Owner.ID != f.owner {
		f.Fatalf("orphans: %+v", o)
	}
	f.must(f.MarkErrored(f.Context(), n, f.now, "its process (pid 7) is gone"))
	f.must(f.MarkErrored(f.Context(), n, f.now, "once more"))
	b := f.build(n)
	if b.State != towpath.BuildErrored || b.Code != towpath.CodeUnavailable || b.Reason != "its process (pid 7) is gone" || b.Atoms != (towpath.Counts{Total: 3, Passed: 1, Canceled: 2}) {
		f.Errorf("build: %+v", b)
	}
	f.same("states", f.states(n), []towpath.AtomState{towpath.AtomPassed, towpath.AtomCanceled, towpath.AtomCanceled})
	for _, a := range collect(f, f.Attempts(f.Context(), n)) {
		if a.Ended.IsZero() {
			f.Errorf("attempt %d has not ended", a.Number)
		}
	}
	if o, err := f.Orphans(f.Context(), gone); err != nil || len(o) != 0 {
		f.Errorf("orphans afterwards: %v, %v", o, err)
	}
	e, err := f.Estimates(f.Context(), "project", "test", []string{"a"}, f.now)
	f.must(err)
	if e["a"].Passes != 1 {
		f.Errorf("what was learned before is gone: %+v", e)
	}
}

func testReserved(f *fixture) {
	f.register()
	n, err := f.NextBuild(f.Context(), store.Reservation{Owner: f.owner, Project: "p", Job: "j", At: f.now})
	f.must(err)
	if _, err := f.Build(f.Context(), n); towpath.CodeOf(err) != towpath.CodeNotFound {
		f.Errorf("a reserved number is seen: %v", err)
	}
	builds, err := f.Builds(f.Context(), towpath.BuildFilter{})
	f.must(err)
	if len(builds) != 0 {
		f.Errorf("builds: %+v", builds)
	}
	f.must(f.MarkErrored(f.Context(), n, f.now, "gone"))
	o, err := f.Orphans(f.Context(), func(towpath.Owner) bool { return false })
	f.must(err)
	if len(o) != 0 {
		f.Errorf("it is still there: %+v", o)
	}
	next, err := f.NextBuild(f.Context(), store.Reservation{Owner: f.owner, Project: "p", Job: "j", At: f.now})
	f.must(err)
	if next <= n {
		f.Errorf("number %d was given after %d", next, n)
	}
}
