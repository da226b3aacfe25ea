package dispatch_test

import (
	"context"
	"sync"
	"testing"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

func TestWatchersThatJoinAtAnyTimeSeeEveryEventOnce(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 8)
	n := w.submit(job(300))
	want := make(chan []towpath.NumberedEvent, 1)
	go func() { want <- w.watch(n, 1) }()
	var wg sync.WaitGroup
	w.workers(8)
	joined := 0
	for e, err := range w.loop.Watch(t.Context(), n, 1) {
		w.must(err)
		if e.Seq%150 == 0 {
			joined++
			wg.Go(func() { w.watch(n, 1+e.Seq/2) })
		}
	}
	wg.Wait()
	if joined < 5 {
		t.Errorf("only %d watchers joined", joined)
	}
	if all := <-want; len(all) < 300*4 {
		t.Errorf("%d events", len(all))
	}
	w.passed(n, 300)
}

func TestAWatcherThatIsTooSlowLosesNothingAndDelaysNobody(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 8)
	const atoms = 1500 // more events than may wait for a watcher
	n := w.submit(job(atoms))
	next, last := int64(1), int64(0)
	for e, err := range w.loop.Watch(t.Context(), n, 1) {
		w.must(err)
		if e.Seq != next {
			t.Fatalf("event %d came where %d was due", e.Seq, next)
		}
		next++
		if e.Seq == 4 { // all of the build happens while this one does not read
			w.workers(8)
			all := w.watch(n, 1)
			last = all[len(all)-1].Seq
		}
	}
	if last < 4096 {
		t.Fatalf("only %d events: they had room", last)
	}
	if next != last+1 {
		t.Errorf("it saw %d events of %d", next-1, last)
	}
	w.passed(n, atoms)
}

func TestWatchingABuildThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for _, err := range w.loop.Watch(t.Context(), 42, 1) {
		if towpath.CodeOf(err) != towpath.CodeNotFound {
			t.Errorf("watch: %v", err)
		}
	}
}

func TestALogIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 1)
	w.hello("other", 1)
	n := w.submit(job(1))
	o := w.offer()
	ins := answers(o)
	w.must(w.loop.Call(t.Context(), ins[0]))
	stranger := towpath.SessionID("other")
	if o.Session == stranger {
		stranger = "s"
	}
	got := make(chan string)
	go func() {
		defer close(got)
		for p, err := range w.loop.Log(context.WithoutCancel(t.Context()), n, towpath.LogQuery{Atom: "atom-0"}) {
			if err != nil {
				t.Errorf("log: %v", err)
				return
			}
			got <- string(p.Data)
		}
	}()
	say := func(session towpath.SessionID, offset int64, text string) {
		t.Helper()
		w.must(w.loop.Logs(t.Context(), session, []store.LogChunk{{Attempt: o.Attempt, Unit: 0, Offset: offset, Data: []byte(text)}}))
	}
	say(o.Session, 0, "one")
	if s := <-got; s != "one" {
		t.Errorf("got %q", s)
	}
	say(stranger, 3, "forged")
	say(o.Session, 3, "two")
	if s := <-got; s != "two" {
		t.Errorf("got %q", s)
	}
	for _, in := range ins[1:] {
		w.must(w.loop.Call(t.Context(), in))
	}
	if s, more := <-got; more {
		t.Errorf("after the end: %q", s)
	}
	w.passed(n, 1)
}
