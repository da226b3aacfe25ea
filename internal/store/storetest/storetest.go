// Package storetest is what every database of Towpath must do, as one suite. Tests of each implementation call Run with a
// way to open an empty one; it knows no SQL and looks only at what the store's methods say.
package storetest

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

// Store is all that a store can do.
type Store interface {
	RegisterOwner(ctx context.Context, o towpath.Owner) error
	NextBuild(ctx context.Context, r store.Reservation) (towpath.BuildNumber, error)
	Orphans(ctx context.Context, alive func(towpath.Owner) bool) ([]store.OwnedBuild, error)
	MarkErrored(ctx context.Context, build towpath.BuildNumber, at time.Time, reason string) error
	Commit(ctx context.Context, b *store.Batch) error
	Probe(ctx context.Context, owner string) error
	FixedCost(ctx context.Context, project, job string) (time.Duration, error)
	Replay(ctx context.Context, owner string) iter.Seq2[towpath.NumberedEvent, error]
	Builds(ctx context.Context, f towpath.BuildFilter) ([]towpath.BuildInfo, error)
	Build(ctx context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error)
	Job(ctx context.Context, n towpath.BuildNumber) (towpath.Job, error)
	Submission(ctx context.Context, n towpath.BuildNumber) (towpath.BuildSubmitted, error)
	Atoms(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AtomInfo, error]
	Attempts(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AttemptInfo, error]
	Cases(ctx context.Context, n towpath.BuildNumber, atom int) iter.Seq2[towpath.CaseInfo, error]
	History(ctx context.Context, n towpath.BuildNumber, atom, name string) iter.Seq2[towpath.PastCase, error]
	Events(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error]
	Log(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery) iter.Seq2[towpath.LogPiece, error]
	PackLogs(chunks []store.LogChunk)
	Tail(n towpath.BuildNumber, q towpath.LogQuery) *store.Tail
	Estimates(ctx context.Context, project, job string, atoms []string, now time.Time) (map[string]towpath.Estimate, error)
	Prune(ctx context.Context, keep int, since, now time.Time) (more bool, err error)
	Close() error
}

// Run runs the suite. open gives an empty store that lives until the end of the test.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*fixture)
	}{
		{"EventsComeBackInOrderFromAnyPoint", testEvents},
		{"ReplayKeepsTheOrderAcrossStreamsAndLeavesReleasedBuildsOut", testReplay},
		{"AFailedBatchLeavesNothing", testAtomic},
		{"BuildNumbersAreGivenOnce", testNumbers},
		{"ReadModelsFollowABuild", testReadModels},
		{"AnAtomOfALostAttemptWaitsAgain", testLostAttempt},
		{"ReadModelsGoOnAfterTheMemoryOfThemIsGone", testForgotten},
		{"BuildsAreListedNewestFirstInPages", testList},
		{"AnOrphanEndsErroredWithEveryAtomAccountedFor", testOrphans},
		{"AReservedNumberWithoutABuildIsNotSeen", testReserved},
		{"AFlakyCaseFailedAndThenPassed", testFlakyCases},
		{"CasesThatDidNotComeToTheirEndAreNotFlaky", testUnfinishedCasesAreNotFlaky},
		{"QuarantinedCasesHaveTheirOwnColumn", testQuarantine},
		{"AWholeRunAfterPartsStandsAlone", testParts},
		{"CasesOfManyAtomsArePaged", testManyCases},
		{"TheHistoryOfACaseIsNewestFirst", testHistory},
		{"DurationsAreWeighedMeans", testDurations},
		{"OnlyPassingWholeUncachedRunsAreSamples", testSamples},
		{"ASplitAtomTeachesTheSumAndItsTests", testSplitDurations},
		{"EstimatesOfManyAtoms", testManyEstimates},
		{"TheFixedCostOfSubjobsIsRemembered", testFixedCost},
		{"LogsComeBackByStreamAndAtom", testLogs},
		{"ATailFollowsALog", testTail},
		{"PruneForgetsOldBuildsAndKeepsDurations", testPrune},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&fixture{T: t, Store: open(t), owner: "owner-1", now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)})
		})
	}
}

// fixture is a store with helpers to tell it of builds.
type fixture struct {
	*testing.T
	Store

	owner   string
	now     time.Time
	attempt int
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) register() {
	f.Helper()
	f.must(f.RegisterOwner(f.Context(), towpath.Owner{ID: f.owner, PID: 7, Socket: "/run/s", Started: f.now}))
}

// event makes an event a second after the last one.
func (f *fixture) event(n towpath.BuildNumber, body towpath.Body) towpath.Event {
	f.now = f.now.Add(time.Second)
	return towpath.Event{Build: n, At: f.now, Body: body}
}

func (f *fixture) commit(n towpath.BuildNumber, bodies ...towpath.Body) {
	f.Helper()
	b := store.Batch{Owner: f.owner}
	for _, body := range bodies {
		b.Events = append(b.Events, f.event(n, body))
	}
	f.must(f.Commit(f.Context(), &b))
}

// submit makes a build of these atoms.
func (f *fixture) submit(job towpath.Job, atoms ...string) towpath.BuildNumber {
	f.Helper()
	if job.Name == "" {
		job.Name = "test"
	}
	n, err := f.NextBuild(f.Context(), store.Reservation{Owner: f.owner, Project: "project", Job: job.Name, At: f.now})
	f.must(err)
	f.commit(n, towpath.BuildSubmitted{Job: job, By: "me", Deadline: f.now.Add(time.Hour)})
	if len(atoms) > 0 {
		f.commit(n, listed(atoms...))
	}
	return n
}

func listed(names ...string) towpath.AtomsListed {
	var l towpath.AtomsListed
	for _, name := range names {
		l.Atoms = append(l.Atoms, towpath.ListedAtom{Name: name})
	}
	return l
}

func whole(atoms ...int) []towpath.OfferedUnit {
	var units []towpath.OfferedUnit
	for _, i := range atoms {
		units = append(units, towpath.OfferedUnit{Unit: towpath.Unit{Atom: i}})
	}
	return units
}

// part is a part of the first atom.
func part(number int) []towpath.OfferedUnit {
	return []towpath.OfferedUnit{{Unit: towpath.Unit{Part: number}}}
}

// offer begins an attempt.
func (f *fixture) offer(n towpath.BuildNumber, units ...towpath.OfferedUnit) towpath.AttemptID {
	f.Helper()
	f.attempt++
	id := towpath.AttemptID(fmt.Sprintf("attempt-%d", f.attempt))
	bodies := []towpath.Body{
		towpath.AttemptOffered{Attempt: id, Number: f.attempt, Kind: towpath.AttemptRun, Session: "session", Agent: "agent", Units: units, StartBy: f.now.Add(5 * time.Second)},
		towpath.AttemptStarted{Attempt: id, Deadline: f.now.Add(time.Minute)},
	}
	for _, u := range units {
		bodies = append(bodies, towpath.AtomStarted{Attempt: id, Unit: u.Unit})
	}
	f.commit(n, bodies...)
	return id
}

// report brings what an attempt says of a unit, with its cases.
func (f *fixture) report(n towpath.BuildNumber, id towpath.AttemptID, u towpath.Unit, r towpath.AtomReport, cases ...towpath.Case) {
	f.Helper()
	for _, c := range cases {
		r.Counts.Total++
		switch c.State {
		case towpath.CasePassed:
			r.Counts.Passed++
		case towpath.CaseFailed:
			r.Counts.Failed++
		case towpath.CaseSkipped:
			r.Counts.Skipped++
		case towpath.CaseUnfinished:
			r.Counts.Unfinished++
		case towpath.CaseFlaky, towpath.CaseQuarantined:
			f.Fatalf("a runner does not report %s", c.State)
		}
	}
	b := store.Batch{Owner: f.owner, Events: []towpath.Event{f.event(n, towpath.AtomReported{Attempt: id, Unit: u, Report: r})}}
	if len(cases) > 0 {
		b.Cases = []store.AttemptCases{{Build: n, Attempt: id, Atom: u.Atom, Part: u.Part, Cases: cases}}
	}
	f.must(f.Commit(f.Context(), &b))
}

func ended(id towpath.AttemptID) towpath.AttemptEnded {
	return towpath.AttemptEnded{Attempt: id, Outcome: towpath.OutcomePassed}
}

// pass runs one atom from its offer to its result.
func (f *fixture) pass(n towpath.BuildNumber, atom int, took time.Duration, cases ...towpath.Case) {
	f.Helper()
	id := f.offer(n, whole(atom)...)
	f.report(n, id, towpath.Unit{Atom: atom}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: took}, cases...)
	f.commit(n, ended(id), towpath.AtomFinished{Atom: atom, State: towpath.AtomPassed, Verdict: id})
}

func kase(name string, state towpath.CaseState) towpath.Case {
	return towpath.Case{Name: name, State: state, Duration: time.Millisecond}
}

func collect[T any](f *fixture, seq iter.Seq2[T, error]) []T {
	f.Helper()
	var all []T
	for v, err := range seq {
		f.must(err)
		all = append(all, v)
	}
	return all
}

func (f *fixture) build(n towpath.BuildNumber) towpath.BuildInfo {
	f.Helper()
	b, err := f.Build(f.Context(), n)
	f.must(err)
	return b
}

func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if d := cmp.Diff(want, got); d != "" {
		f.Errorf("%s (-want +got):\n%s", what, d)
	}
}
