package dispatch_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath"
)

func TestABuildThatNobodyTakesEndsAtItsQueueLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		began := time.Now()
		n := w.submit(job(3))
		events := w.watchLong(n)
		end, ok := events[len(events)-1].Event.Body.(towpath.BuildFinished)
		if !ok || end.State != towpath.BuildErrored || end.Reason == "" {
			t.Fatalf("last event: %+v", events[len(events)-1])
		}
		if took := time.Since(began); took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("it ended after %v: %s", took, end.Reason)
		}
		w.stop()
	})
}

// watchLong reads a build's events to its end, however long that takes.
func (w *world) watchLong(n towpath.BuildNumber) (all []towpath.NumberedEvent) {
	w.Helper()
	for e, err := range w.loop.Watch(w.Context(), n, 1) {
		w.must(err)
		all = append(all, e)
	}
	return all
}

func TestASessionThatIsNotHeardFromIsRefusedAndItsWorkGoesElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		w.hello("gone", 1)
		n := w.submit(job(1))
		o := w.offer()
		w.must(w.loop.Call(t.Context(), towpath.Started{Session: "gone", Attempt: o.Attempt}))
		began := time.Now()
		if id := <-w.refused; id != "gone" {
			t.Errorf("refused %s", id)
		}
		if took := time.Since(began); took < 15*time.Second || took > 17*time.Second {
			t.Errorf("it was lost after %v", took)
		}
		err := w.loop.Call(t.Context(), towpath.Beat{Session: "gone"})
		if towpath.CodeOf(err) != towpath.CodeSessionLost || !strings.Contains(err.Error(), "not heard from") {
			t.Errorf("a late beat: %v", err)
		}
		w.hello("next", 1)
		again := w.offer()
		if again.Session != "next" || again.Attempt == o.Attempt {
			t.Errorf("offered again: %+v", again)
		}
		for _, in := range answers(again) {
			w.must(w.loop.Call(t.Context(), in))
		}
		w.watchLong(n)
		w.passed(n, 1)
		w.stop()
	})
}

func TestCancelStopsWhatRunsAndAnswersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		w.hello("s", 1)
		n := w.submit(job(2))
		o := w.offer()
		w.must(w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: o.Attempt}))
		began := time.Now()
		w.must(w.loop.Cancel(t.Context(), n, "me"))
		for _, e := range w.watchLong(n) {
			if v, ok := e.Event.Body.(towpath.BuildFinished); ok && (v.State != towpath.BuildCanceled || !strings.Contains(v.Reason, "me")) {
				t.Errorf("end: %+v", v)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		stop, ok := (<-w.commands).(towpath.Stop)
		if !ok || stop.Attempt != o.Attempt {
			t.Errorf("told: %+v", stop)
		}
		if err := w.loop.Cancel(t.Context(), n+1, "me"); towpath.CodeOf(err) != towpath.CodeNotFound {
			t.Errorf("cancel of nothing: %v", err)
		}
		w.stop()
	})
}
