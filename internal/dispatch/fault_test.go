package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

// faulty is a store whose writes fail when the test says so.
type faulty struct {
	*store.DB

	mu      sync.Mutex
	full    bool        // +checklocks:mu
	blur    bool        // +checklocks:mu: writes, and then says that it could not
	failing func() bool // +checklocks:mu
}

var errFull = towpath.Errorf(towpath.CodeUnavailable, "write to towpath.db: disk full; make room")

func (f *faulty) set(full, blur bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full, f.blur = full, blur
}

func (f *faulty) isFull() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.full
}

// next says what becomes of the next commit.
func (f *faulty) next() (fails, blur bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fails, blur = f.full || f.failing != nil && f.failing(), f.blur
	f.blur = false
	return fails, blur
}

func (f *faulty) Commit(ctx context.Context, b *store.Batch) error {
	fails, blur := f.next()
	if fails {
		return errFull
	}
	if err := f.DB.Commit(ctx, b); err != nil || !blur {
		return err
	}
	return errors.New("the line went dead")
}

func (f *faulty) Probe(ctx context.Context, owner string) error {
	if f.isFull() {
		return errFull
	}
	return f.DB.Probe(ctx, owner)
}

func (f *faulty) NextBuild(ctx context.Context, r store.Reservation) (towpath.BuildNumber, error) {
	if f.isFull() {
		return 0, errFull
	}
	return f.DB.NextBuild(ctx, r)
}

func beginFaulty(t *testing.T) (*world, *faulty) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "towpath.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := db.RegisterOwner(t.Context(), towpath.Owner{ID: "owner", Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	f := &faulty{DB: db}
	return beginOver(t, db, f), f
}

// again tries an input until the store takes it.
func (w *world) again(in towpath.Input) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	for {
		err := w.loop.Call(ctx, in)
		if towpath.CodeOf(err) != towpath.CodeUnavailable {
			w.must(err)
			return
		}
	}
}

func TestAFullDiskRefusesSubmissionsAndLosesNothing(t *testing.T) {
	t.Parallel()
	w, f := beginFaulty(t)
	w.hello("s", 2)
	n := w.submit(job(20))
	one, two := w.offer(), w.offer()
	for _, in := range answers(one) {
		w.must(w.loop.Call(t.Context(), in))
	}
	f.set(true, false)
	if err := w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: two.Attempt}); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Fatalf("acknowledged with a full disk: %v", err)
	}
	_, err := w.loop.Submit(t.Context(), "project", towpath.Submit{Job: job(1)})
	if towpath.CodeOf(err) != towpath.CodeUnavailable || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("submission: %v", err)
	}
	if err := w.loop.Logs(t.Context(), "s", []store.LogChunk{{Attempt: two.Attempt, Data: []byte("x")}}); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("logs: %v", err)
	}
	b, err := w.db.Build(t.Context(), n)
	w.must(err)
	if b.Atoms.Passed != 1 || b.State.Final() {
		t.Errorf("the build meanwhile: %+v", b)
	}
	f.set(false, false)
	for _, in := range answers(two) {
		w.again(in)
	}
	w.workers(2)
	w.watch(n, 1)
	w.passed(n, 20)
	w.watch(w.submit(job(1)), 1)
}

func TestAWriteOfUnknownOutcomeIsReadBackAndItsCommandsAreSent(t *testing.T) {
	t.Parallel()
	w, f := beginFaulty(t)
	w.hello("s", 1)
	f.set(false, true)
	// It is stored, but the loop is told that it was not, and so tells its caller.
	if _, err := w.loop.Submit(t.Context(), "project", towpath.Submit{Job: job(3)}); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Fatalf("submission: %v", err)
	}
	o := w.offer()
	w.again(towpath.Started{Session: "s", Attempt: o.Attempt})
	f.set(false, true)
	for _, in := range answers(o)[1:] {
		w.again(in)
	}
	w.workers(1)
	w.watch(o.Build, 1)
	w.passed(o.Build, 3)
}

func TestBuildsSurviveAStoreThatFailsAtRandom(t *testing.T) {
	t.Parallel()
	w, f := beginFaulty(t)
	w.hello("s", 8)
	r := rand.New(rand.NewPCG(1, 2))
	failures := 0
	n := w.submit(job(200))
	f.mu.Lock()
	f.failing = func() bool {
		fails := failures < 25 && r.IntN(10) == 0
		if fails {
			failures++
		}
		return fails
	}
	f.mu.Unlock()
	w.workers(8)
	w.watch(n, 1)
	w.passed(n, 200)
	f.mu.Lock()
	defer f.mu.Unlock()
	if failures < 10 {
		t.Errorf("only %d writes failed", failures)
	}
}

func TestAWatcherSeesNoEventThatWasNotStored(t *testing.T) {
	t.Parallel()
	w, f := beginFaulty(t)
	w.hello("s", 1)
	n := w.submit(job(1))
	o := w.offer()
	f.set(true, false)
	if err := w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: o.Attempt}); err == nil {
		t.Fatal("acknowledged")
	}
	f.set(false, false)
	for _, in := range answers(o) {
		w.again(in)
	}
	seen := ""
	for _, e := range w.watch(n, 1) {
		seen += fmt.Sprintf("%T ", e.Event.Body)
	}
	if c := strings.Count(seen, "AttemptStarted"); c != 1 {
		t.Errorf("started %d times: %s", c, seen)
	}
	w.passed(n, 1)
}

func TestABuildThatAnotherProcessEndedIsGivenUp(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 2)
	n := w.submit(job(5))
	o := w.offer()
	w.must(w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: o.Attempt}))
	// It took this process for dead.
	other, err := store.Open(t.Context(), store.Options{Path: w.db.Path()})
	w.must(err)
	w.must(other.MarkErrored(t.Context(), n, time.Now(), "taken for dead"))
	w.must(other.Close())
	if err := w.loop.Call(t.Context(), answers(o)[1]); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("written to a build that has ended: %v", err)
	}
	w.workers(2)
	next := w.submitAgain(job(3))
	w.watch(next, 1)
	w.passed(next, 3)
	b, err := w.db.Build(t.Context(), n)
	w.must(err)
	if b.State != towpath.BuildErrored || b.Reason != "taken for dead" || b.Atoms.Canceled != 5 {
		t.Errorf("the build: %+v", b)
	}
}

// submitAgain submits until the store takes it.
func (w *world) submitAgain(j towpath.Job) towpath.BuildNumber {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	for {
		n, err := w.loop.Submit(ctx, "project", towpath.Submit{Job: j})
		if towpath.CodeOf(err) != towpath.CodeUnavailable {
			w.must(err)
			return n
		}
	}
}
