package storetest

import (
	"sync"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

func testEvents(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a", "b", "c")
	for i := range 3 {
		f.pass(n, i, time.Second)
	}
	all := collect(f, f.Events(f.Context(), n, 1))
	if len(all) < 10 {
		f.Fatalf("%d events", len(all))
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			f.Fatalf("event %d has sequence number %d", i+1, e.Seq)
		}
	}
	for from := range all {
		f.same("events from a point on", collect(f, f.Events(f.Context(), n, int64(from+1))), all[from:])
	}
	if more := collect(f, f.Events(f.Context(), n, int64(len(all)+1))); len(more) != 0 {
		f.Errorf("%d events after the last", len(more))
	}
	if sub, ok := all[0].Event.Body.(towpath.BuildSubmitted); !ok || sub.By != "me" {
		f.Errorf("first event: %+v", all[0])
	}
}

func testReplay(f *fixture) {
	f.register()
	one, two := f.submit(towpath.Job{}, "a"), f.submit(towpath.Job{}, "a")
	var want []towpath.Event
	b := store.Batch{Owner: f.owner}
	for i := range 200 {
		build := []towpath.BuildNumber{one, 0, two}[i%3]
		var body towpath.Body = towpath.SessionDraining{Session: towpath.SessionID(time.Duration(i).String())}
		if build != 0 {
			body = towpath.AttemptStarted{Attempt: towpath.AttemptID(time.Duration(i).String())}
		}
		b.Events = append(b.Events, f.event(build, body))
	}
	want = append(want, b.Events...)
	f.must(f.Commit(f.Context(), &b))
	replayed := func() (events []towpath.Event) {
		for _, e := range collect(f, f.Replay(f.Context(), f.owner)) {
			switch e.Event.Body.(type) {
			case towpath.SessionDraining, towpath.AttemptStarted:
				events = append(events, e.Event)
			}
		}
		return events
	}
	f.same("events", replayed(), want)

	f.commit(one, towpath.BuildFinished{State: towpath.BuildPassed})
	f.must(f.Commit(f.Context(), &store.Batch{Owner: f.owner, Released: []towpath.BuildNumber{one}}))
	for _, e := range collect(f, f.Replay(f.Context(), f.owner)) {
		if e.Event.Build == one {
			f.Fatalf("event %d of a released build was replayed", e.Seq)
		}
	}
	if got := collect(f, f.Replay(f.Context(), "somebody else")); len(got) != 0 {
		f.Errorf("%d events of another owner", len(got))
	}
}

func testAtomic(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a")
	before := collect(f, f.Events(f.Context(), n, 1))
	id := towpath.AttemptID("never-offered")
	err := f.Commit(f.Context(), &store.Batch{
		Owner:  f.owner,
		Events: []towpath.Event{f.event(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomFailed})},
		Cases:  []store.AttemptCases{{Build: n, Attempt: id, Cases: []towpath.Case{kase("x", towpath.CasePassed)}}},
	})
	if err == nil {
		f.Fatal("cases of an attempt that does not exist were taken")
	}
	f.same("events after a failed batch", collect(f, f.Events(f.Context(), n, 1)), before)
	if c := f.build(n).Atoms; c.Failed != 0 {
		f.Errorf("counts after a failed batch: %+v", c)
	}
	f.pass(n, 0, time.Second)
	if c := f.build(n).Atoms; c.Passed != 1 || c.Failed != 0 {
		f.Errorf("counts after the next batch: %+v", c)
	}
	if err := f.Commit(f.Context(), &store.Batch{Owner: f.owner, Events: []towpath.Event{f.event(n+99, towpath.AtomFinished{})}}); err == nil {
		f.Error("an event of a build without a number was taken")
	}
}

func testNumbers(f *fixture) {
	f.register()
	var mu sync.Mutex
	seen := map[towpath.BuildNumber]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				n, err := f.NextBuild(f.Context(), store.Reservation{Owner: f.owner, Project: "p", Job: "j", At: f.now})
				mu.Lock()
				if err != nil || n < 1 || seen[n] {
					f.Errorf("number %d, seen before: %v, err %v", n, seen[n], err)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 160 {
		f.Errorf("%d numbers, want 160", len(seen))
	}
}
