package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

func (f *fixture) log(chunks ...store.LogChunk) {
	f.Helper()
	if len(chunks) == 1 { // both ways must do the same
		f.PackLogs(chunks)
	}
	f.must(f.Commit(f.Context(), &store.Batch{Owner: f.owner, Logs: chunks}))
}

// text writes a log as "attempt.unit@offset:data" pieces.
func text(pieces []towpath.LogPiece) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%d.%d@%d", p.Attempt, p.Unit, p.Offset)
		if p.Gap > 0 {
			fmt.Fprintf(&b, "-%d", p.Gap)
		}
		fmt.Fprintf(&b, ":%s ", p.Data)
	}
	return strings.TrimSpace(b.String())
}

func (f *fixture) logText(n towpath.BuildNumber, q towpath.LogQuery) string {
	f.Helper()
	return text(collect(f, f.Log(f.Context(), n, q)))
}

func testLogs(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a", "b")
	one := f.offer(n, whole(1, 0)...)
	f.log(store.LogChunk{Build: n, Attempt: one, Unit: 0, Data: []byte("hello")},
		store.LogChunk{Build: n, Attempt: one, Unit: 1, Data: []byte("x")},
		store.LogChunk{Build: n, Attempt: one, Unit: store.Whole, Data: []byte("set up")})
	f.log(store.LogChunk{Build: n, Attempt: one, Unit: 0, Offset: 5, Data: []byte("world")},
		store.LogChunk{Build: n, Attempt: one, Unit: 0, Offset: 100, Gap: 90, Data: []byte("tail")},
		store.LogChunk{Build: n, Attempt: "nobody's", Unit: 0, Data: []byte("dropped")})
	f.log(store.LogChunk{Build: n, Attempt: one, Unit: 0, Offset: 5, Data: []byte("again")}) // delivered twice: the first one stays
	two := f.offer(n, whole(0)...)
	f.log(store.LogChunk{Build: n, Attempt: two, Unit: store.Whole, Data: []byte("all of it")})

	f.same("all", f.logText(n, towpath.LogQuery{}),
		"1.-1@0:set up 1.0@0:hello 1.0@5:world 1.0@100-90:tail 1.1@0:x 2.-1@0:all of it")
	f.same("one attempt", f.logText(n, towpath.LogQuery{Attempt: 2}), "2.-1@0:all of it")
	f.same("an atom with a stream of its own", f.logText(n, towpath.LogQuery{Atom: "b"}), "1.0@0:hello 1.0@5:world 1.0@100-90:tail")
	f.same("an atom with and without", f.logText(n, towpath.LogQuery{Atom: "a"}), "1.1@0:x 2.-1@0:all of it")
	f.same("from an offset", f.logText(n, towpath.LogQuery{Atom: "b", Offset: 7}), "1.0@7:rld 1.0@100-90:tail")
	for _, p := range collect(f, f.Log(f.Context(), n, towpath.LogQuery{Atom: "b"})) {
		if p.Atom != "b" {
			f.Errorf("piece: %+v", p)
		}
	}
	for _, err := range f.Log(f.Context(), n, towpath.LogQuery{Atom: "nothing"}) {
		if towpath.CodeOf(err) != towpath.CodeNotFound {
			f.Errorf("log of an atom that does not exist: %v", err)
		}
	}

	big := bytes.Repeat([]byte("0123456789abcdef"), store.MaxChunk/16)
	for i := range 40 {
		f.log(store.LogChunk{Build: n, Attempt: two, Unit: 0, Offset: int64(i * len(big)), Data: big})
	}
	var whole []byte
	for _, p := range collect(f, f.Log(f.Context(), n, towpath.LogQuery{Attempt: 2, Atom: "a"})) {
		whole = append(whole, p.Data...)
	}
	if !bytes.Equal(whole, bytes.Repeat(big, 40)) {
		f.Errorf("a long log came back with %d bytes, want %d", len(whole), 40*len(big))
	}
}

func testTail(f *fixture) {
	f.register()
	n := f.submit(towpath.Job{}, "a", "b")
	all, some := f.Tail(n, towpath.LogQuery{}), f.Tail(n, towpath.LogQuery{Atom: "b"})
	next := func(t *store.Tail) string {
		f.Helper()
		pieces, err := t.Next(f.Context())
		f.must(err)
		return text(pieces)
	}
	f.same("before anything came", next(all), "")
	id := f.offer(n, whole(0, 1)...)
	f.log(store.LogChunk{Build: n, Attempt: id, Unit: 1, Data: []byte("first")}, store.LogChunk{Build: n, Attempt: id, Unit: 0, Data: []byte("second")})
	f.same("all", next(all), "1.1@0:first 1.0@0:second")
	f.same("of an atom", next(some), "1.1@0:first")
	f.same("nothing new", next(all)+next(some), "")
	f.log(store.LogChunk{Build: n, Attempt: id, Unit: 0, Offset: 6, Data: []byte("third")})
	f.same("all", next(all), "1.0@6:third")
	f.same("nothing for the atom", next(some), "")
}

func testPrune(f *fixture) {
	f.register()
	var numbers []towpath.BuildNumber
	for range 6 {
		n := f.submit(towpath.Job{}, "a")
		id := f.offer(n, whole(0)...)
		f.log(store.LogChunk{Build: n, Attempt: id, Data: bytes.Repeat([]byte("x"), 1000)})
		f.report(n, id, towpath.Unit{}, towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second}, kase("x", towpath.CasePassed))
		f.commit(n, towpath.AtomFinished{Atom: 0, State: towpath.AtomPassed, Verdict: id}, ended(id), towpath.BuildFinished{State: towpath.BuildPassed})
		numbers = append(numbers, n)
	}
	running := f.submit(towpath.Job{}, "a")
	since := f.now.Add(time.Hour)
	for more := true; more; {
		var err error
		more, err = f.Prune(f.Context(), 2, since, f.now)
		f.must(err)
	}
	var kept []towpath.BuildNumber
	builds, err := f.Builds(f.Context(), towpath.BuildFilter{})
	f.must(err)
	for _, b := range builds {
		kept = append(kept, b.Number)
	}
	f.same("builds", kept, []towpath.BuildNumber{running, numbers[5], numbers[4]})
	if events := collect(f, f.Events(f.Context(), numbers[0], 1)); len(events) != 0 {
		f.Errorf("%d events of a build that was removed", len(events))
	}
	if e := f.estimate("a"); e.Passes != 6 {
		f.Errorf("durations: %+v", e)
	}
	if past := collect(f, f.History(f.Context(), numbers[5], "a", "x")); len(past) != 2 {
		f.Errorf("history: %+v", past)
	}
	if _, err := f.Prune(f.Context(), 0, f.now.Add(-24*time.Hour), f.now); err != nil {
		f.Error(err)
	}
	if builds, err := f.Builds(f.Context(), towpath.BuildFilter{}); err != nil || len(builds) != 3 {
		f.Errorf("young builds went: %d are left, err %v", len(builds), err)
	}
	next, err := f.NextBuild(f.Context(), store.Reservation{Owner: f.owner, Project: "p", Job: "j", At: f.now})
	f.must(err)
	if next <= running {
		f.Errorf("number %d was given after %d", next, running)
	}
}
