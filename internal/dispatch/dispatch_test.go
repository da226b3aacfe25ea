package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/dispatch"
	"github.com/towpath/towpath/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a loop over a real store, and sessions that a test plays.
type world struct {
	*testing.T
	db   *store.DB
	loop *dispatch.Loop

	commands chan towpath.Command // what sessions were told
	refused  chan towpath.SessionID
	drained  chan towpath.SessionID
	stop     func() // stops the loop and waits for it
}

func (w *world) Send(cmd towpath.Command) error {
	select {
	case w.commands <- cmd:
		return nil
	default:
		return towpath.Errorf(towpath.CodeSessionLost, "the mailbox is full")
	}
}

func (w *world) Drain(id towpath.SessionID) { w.drained <- id }

func (w *world) Refuse(id towpath.SessionID, _ string) { w.refused <- id }

// begin makes a store and runs a loop over it.
func begin(t *testing.T) *world {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "towpath.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.RegisterOwner(t.Context(), towpath.Owner{ID: "owner", PID: 7, Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return beginOver(t, db, db)
}

// beginOver runs a loop that writes to a store other than the one that the test reads.
func beginOver(t *testing.T, db *store.DB, to dispatch.Store) *world {
	t.Helper()
	w := &world{T: t, db: db, commands: make(chan towpath.Command, 10_000), refused: make(chan towpath.SessionID, 100), drained: make(chan towpath.SessionID, 100)}
	w.loop = dispatch.New(dispatch.Config{Store: to, Sessions: w, Owner: "owner", Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.loop.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) hello(id towpath.SessionID, slots int) {
	w.Helper()
	w.must(w.loop.Call(w.Context(), towpath.Hello{Session: id, Agent: "agent-" + string(id), Slots: slots, Speed: 1}))
}

func job(atoms int) towpath.Job {
	list := make([]string, atoms)
	for i := range list {
		list[i] = fmt.Sprintf("atom-%d", i)
	}
	return towpath.Job{
		Name: "test", Atoms: towpath.AtomSource{List: list}, Run: "true", Slots: 1, Batch: towpath.Batch{Count: 1}, PerAtom: true,
		Timeouts: towpath.Timeouts{Queue: 10 * time.Minute, Setup: time.Minute, Atom: time.Minute, Silence: time.Minute, Build: time.Hour},
		Retries:  towpath.Retries{Lost: 3},
	}
}

func (w *world) submit(j towpath.Job) towpath.BuildNumber {
	w.Helper()
	n, err := w.loop.Submit(w.Context(), "project", towpath.Submit{Job: j})
	w.must(err)
	return n
}

// offer waits for the next offer.
func (w *world) offer() towpath.Offer {
	w.Helper()
	for {
		select {
		case cmd := <-w.commands:
			if o, ok := cmd.(towpath.Offer); ok {
				return o
			}
		case <-time.After(20 * time.Second):
			w.Fatal("no offer came")
		}
	}
}

// answers are what an agent says of an offer all of whose atoms pass.
func answers(o towpath.Offer) []towpath.Input {
	ins := []towpath.Input{towpath.Started{Session: o.Session, Attempt: o.Attempt}}
	for _, u := range o.Units {
		ins = append(ins, towpath.AtomBegan{Session: o.Session, Attempt: o.Attempt, Atom: u.Atom, Part: u.Part})
		ins = append(ins, towpath.AtomDone{Session: o.Session, Attempt: o.Attempt, Atom: u.Atom, Part: u.Part, Report: towpath.AtomReport{
			Outcome: towpath.OutcomePassed, Duration: time.Second, Counts: towpath.Counts{Total: 1, Passed: 1},
			Cases: []towpath.Case{{Name: "case of " + u.Name, State: towpath.CasePassed}},
		}})
	}
	return append(ins, towpath.Done{Session: o.Session, Attempt: o.Attempt, Outcome: towpath.OutcomePassed})
}

// work answers offers until the loop is told to stop, trying again what is not available.
func (w *world) work(ctx context.Context) {
	for {
		var o towpath.Offer
		select {
		case cmd := <-w.commands:
			var ok bool
			if o, ok = cmd.(towpath.Offer); !ok {
				continue
			}
		case <-ctx.Done():
			return
		}
		for _, in := range answers(o) {
			for {
				err := w.loop.Call(ctx, in)
				if towpath.CodeOf(err) != towpath.CodeUnavailable || ctx.Err() != nil {
					break
				}
			}
		}
	}
}

// workers runs so many of them until the end of the test or until the function it returns was called.
func (w *world) workers(n int) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { w.work(ctx) })
	}
	stop = func() {
		cancel()
		wg.Wait()
	}
	w.Cleanup(stop)
	return stop
}

// watch reads a build's events to its end, and checks that none is missing or comes twice.
func (w *world) watch(n towpath.BuildNumber, from int64) []towpath.NumberedEvent {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	var all []towpath.NumberedEvent
	for e, err := range w.loop.Watch(ctx, n, from) {
		if err != nil {
			w.Errorf("watch build %d: %v", n, err)
			return all
		}
		if want := from + int64(len(all)); e.Seq != want {
			w.Errorf("event %d came where %d was due", e.Seq, want)
		}
		all = append(all, e)
	}
	return all
}

func (w *world) passed(n towpath.BuildNumber, atoms int) {
	w.Helper()
	b, err := w.db.Build(w.Context(), n)
	w.must(err)
	if b.State != towpath.BuildPassed || b.Atoms != (towpath.Counts{Total: atoms, Passed: atoms}) {
		w.Errorf("build %d: %+v", n, b)
	}
	results := map[int]int{}
	for e, err := range w.db.Events(w.Context(), n, 1) {
		w.must(err)
		if v, ok := e.Event.Body.(towpath.AtomFinished); ok {
			results[v.Atom]++
		}
	}
	for i := range atoms {
		if results[i] != 1 {
			w.Errorf("atom %d has %d results", i, results[i])
		}
	}
}

func TestABuildRunsToItsEndAndIsRemembered(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 4)
	w.workers(4)
	n := w.submit(job(50))
	w.watch(n, 1)
	w.passed(n, 50)
	cases := 0
	for c, err := range w.db.Cases(t.Context(), n, -1) {
		w.must(err)
		if c.Name != "case of "+c.Atom || c.State != towpath.CasePassed {
			t.Errorf("case: %+v", c)
		}
		cases++
	}
	if cases != 50 {
		t.Errorf("%d cases, want 50", cases)
	}
	if again := w.submit(job(50)); again != n+1 {
		t.Errorf("the next build has number %d", again)
	}
}

func TestWhatIsKnownOfAtomsComesWithTheirList(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 1)
	j := job(0)
	j.Atoms = towpath.AtomSource{Command: "list them"}
	for build := range 2 {
		n := w.submit(j)
		o := w.offer()
		if o.Kind != towpath.AttemptList {
			t.Fatalf("first offer: %+v", o)
		}
		w.must(w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: o.Attempt}))
		w.must(w.loop.Call(t.Context(), towpath.Done{Session: "s", Attempt: o.Attempt, Outcome: towpath.OutcomePassed, Atoms: []string{"x"}}))
		run := w.offer()
		for _, err := range w.loop.Inputs(t.Context(), answers(run)) {
			w.must(err)
		}
		for _, e := range w.watch(n, 1) {
			if v, ok := e.Event.Body.(towpath.AtomsListed); ok && v.Atoms[0].Estimate.Passes != build {
				t.Errorf("build %d: %+v", build, v.Atoms[0].Estimate)
			}
		}
		w.passed(n, 1)
	}
}

func TestAReportThatIsNotAcceptedLeavesNoCases(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 1)
	w.hello("other", 1)
	n := w.submit(job(1))
	o := w.offer()
	ins := answers(o)
	w.must(w.loop.Call(t.Context(), ins[0]))
	done, ok := ins[2].(towpath.AtomDone)
	if !ok {
		t.Fatalf("%T", ins[2])
	}
	stranger := done
	stranger.Session = "s"
	if o.Session == "s" {
		stranger.Session = "other"
	}
	if err := w.loop.Call(t.Context(), stranger); err == nil {
		t.Error("a report of another session was accepted")
	}
	for c, err := range w.db.Cases(t.Context(), n, -1) {
		t.Errorf("it left case %v, %v", c, err)
	}
	w.must(w.loop.Call(t.Context(), done))
	w.must(w.loop.Call(t.Context(), ins[3]))
	w.watch(n, 1)
	w.passed(n, 1)
}

func TestCallersAreAnsweredWhenTheLoopEnds(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 1)
	n := w.submit(job(1))
	watching := make(chan error, 1)
	go func() {
		var last error
		for _, err := range w.loop.Watch(context.WithoutCancel(t.Context()), n, 1) {
			last = err
		}
		watching <- last
	}()
	w.stop()
	if err := <-watching; towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("watch: %v", err)
	}
	if err := w.loop.Call(t.Context(), towpath.Beat{Session: "s"}); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("call: %v", err)
	}
	if err := w.loop.Logs(t.Context(), "s", nil); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("logs: %v", err)
	}
}

func TestALoopOverTheSameStoreGoesOn(t *testing.T) {
	t.Parallel()
	first := begin(t)
	first.hello("s", 2)
	n := first.submit(job(5))
	begun, unbegun := first.offer(), first.offer()
	first.must(first.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: begun.Attempt}))
	first.stop()

	w := beginOver(t, first.db, first.db)
	if again := w.offer(); again.Attempt != unbegun.Attempt || again.Job == nil || again.Job.Run != "true" {
		t.Errorf("told again: %+v, want attempt %s", again, unbegun.Attempt)
	}
	for _, in := range answers(begun)[1:] {
		w.must(w.loop.Call(t.Context(), in))
	}
	for _, in := range answers(unbegun) {
		w.must(w.loop.Call(t.Context(), in))
	}
	w.workers(2)
	w.watch(n, 1)
	w.passed(n, 5)
	for e, err := range w.db.Replay(t.Context(), "owner") {
		w.must(err)
		if e.Event.Build == n {
			t.Errorf("event %d of a build that is over would be replayed", e.Seq)
		}
	}
	if next := w.submit(job(1)); next != n+1 {
		t.Errorf("numbers do not go on: %d after %d", next, n)
	}
}

func TestADrainedSessionIsToldAndGetsNoMoreOffers(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.hello("s", 1)
	n := w.submit(job(2))
	o := w.offer()
	w.must(w.loop.Call(t.Context(), towpath.Drain{Session: "s"}))
	if id := <-w.drained; id != "s" {
		t.Errorf("told %s to leave", id)
	}
	w.hello("next", 1)
	for _, in := range answers(o) {
		w.must(w.loop.Call(t.Context(), in))
	}
	if next := w.offer(); next.Session != "next" {
		t.Errorf("offered to %s", next.Session)
	} else {
		for _, err := range w.loop.Inputs(t.Context(), answers(next)) {
			w.must(err)
		}
	}
	w.watch(n, 1)
	w.passed(n, 2)
}
