package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/dispatch"
	"github.com/towpath/towpath/internal/store"
)

// idleAgent takes every offer and answers at once that all of it passed.
type idleAgent struct {
	loop    *dispatch.Loop
	offers  chan towpath.Offer
	started chan begun                         // if not nil: gets each run as it begins
	held    atomic.Pointer[chan towpath.Offer] // if not nil: gets the offers of the session "chatty", which are begun and go on
}

type begun struct {
	atom string
	at   time.Time
}

func (a *idleAgent) Send(cmd towpath.Command) error {
	if o, ok := cmd.(towpath.Offer); ok {
		a.offers <- o // there is room for every slot
	}
	return nil
}

func (a *idleAgent) Drain(towpath.SessionID) {}

func (a *idleAgent) Refuse(towpath.SessionID, string) {}

func (a *idleAgent) run(ctx context.Context) error {
	for {
		var o towpath.Offer
		select {
		case <-ctx.Done():
			return nil
		case o = <-a.offers:
		}
		if a.started != nil && o.Session != "chatty" && o.Kind == towpath.AttemptRun {
			a.started <- begun{o.Units[0].Name, time.Now()}
		}
		ins := []towpath.Input{towpath.Started{Session: o.Session, Attempt: o.Attempt}}
		if o.Session == "chatty" {
			if err := a.loop.Call(ctx, ins[0]); err != nil {
				return err
			}
			*a.held.Load() <- o
			continue
		}
		for _, u := range o.Units {
			ins = append(ins, towpath.AtomBegan{Session: o.Session, Attempt: o.Attempt, Atom: u.Atom, Part: u.Part})
			ins = append(ins, towpath.AtomDone{
				Session: o.Session, Attempt: o.Attempt, Atom: u.Atom, Part: u.Part,
				Report: towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Millisecond},
			})
		}
		ins = append(ins, towpath.Done{Session: o.Session, Attempt: o.Attempt, Outcome: towpath.OutcomePassed})
		for _, err := range a.loop.Inputs(ctx, ins) {
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("answer attempt %s: %w", o.Attempt, err)
			}
		}
	}
}

// startDispatch runs a loop over a new SQLite file and an agent of so many slots until the end of the test.
func startDispatch(tb testing.TB, sync store.Sync, slots int) *idleAgent {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(tb.TempDir(), "towpath.db"), Sync: sync})
	if err != nil {
		tb.Fatal(err)
	}
	if err := db.RegisterOwner(ctx, towpath.Owner{ID: "bench", Started: time.Now()}); err != nil {
		tb.Fatal(err)
	}
	agent := &idleAgent{offers: make(chan towpath.Offer, 4*slots)}
	agent.loop = dispatch.New(dispatch.Config{Store: db, Sessions: agent, Owner: "bench", Logger: slog.New(slog.DiscardHandler)})
	var g errgroup.Group
	g.Go(func() error { return agent.loop.Run(ctx) })
	for range slots {
		g.Go(func() error { return agent.run(ctx) })
	}
	tb.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			tb.Error(err)
		}
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := agent.loop.Call(ctx, towpath.Hello{Session: "s", Agent: "bench", Slots: slots, Speed: 1}); err != nil {
		tb.Fatal(err)
	}
	return agent
}

func benchJob(atoms int) towpath.Job {
	list := make([]string, atoms)
	for i := range list {
		list[i] = fmt.Sprintf("atom/%06d", i)
	}
	return towpath.Job{
		Name: "bench", Atoms: towpath.AtomSource{List: list}, Run: "true", Slots: 1, Batch: towpath.Batch{Count: 1}, PerAtom: true,
		Timeouts: towpath.Timeouts{Queue: time.Minute, Setup: time.Minute, Atom: time.Minute, Silence: time.Minute, Build: time.Hour},
	}
}

// BenchmarkDispatch measures atoms a second, from submission to the stored end of the build: sched, dispatch and SQLite, one
// attempt an atom, without an executor.
func BenchmarkDispatch(b *testing.B) {
	for _, sync := range []store.Sync{store.SyncNormal, store.SyncFull} {
		b.Run("synchronous="+string(sync), func(b *testing.B) {
			const atoms = 10_000
			agent := startDispatch(b, sync, 64)
			for b.Loop() {
				runBuild(b, agent, atoms)
			}
			b.ReportMetric(float64(atoms*b.N)/b.Elapsed().Seconds(), "atoms/s")
		})
	}
}

// BenchmarkLargeBuild is BenchmarkDispatch with 100,000 atoms in one build, which are known from the second one on. It
// also reports what the whole process took from the system.
func BenchmarkLargeBuild(b *testing.B) {
	const atoms = 100_000
	agent := startDispatch(b, store.SyncNormal, 64)
	for b.Loop() {
		runBuild(b, agent, atoms)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
	b.ReportMetric(float64(atoms*b.N)/b.Elapsed().Seconds(), "atoms/s")
}

func runBuild(b *testing.B, agent *idleAgent, atoms int) {
	b.Helper()
	n, err := agent.loop.Submit(b.Context(), "bench", towpath.Submit{Job: benchJob(atoms)})
	if err != nil {
		b.Fatal(err)
	}
	last := towpath.BuildFinished{}
	for e, err := range agent.loop.Watch(b.Context(), n, 1) {
		if err != nil {
			b.Fatal(err)
		}
		if v, ok := e.Event.Body.(towpath.BuildFinished); ok {
			last = v
		}
	}
	if last.Atoms.Passed != atoms {
		b.Fatalf("%d of %d atoms passed: %+v", last.Atoms.Passed, atoms, last)
	}
}

// BenchmarkSubmitToStart measures, at 50 builds a second whatever becomes of the earlier ones, how long it takes from a
// submission to the moment at which its atom is begun: with nothing else to do, and beside tests that print as fast as
// their output is taken.
func BenchmarkSubmitToStart(b *testing.B) {
	for _, c := range []struct {
		sync   store.Sync
		chatty int
	}{{store.SyncNormal, 0}, {store.SyncFull, 0}, {store.SyncNormal, 4}} {
		b.Run(fmt.Sprintf("synchronous=%s/chatty=%d", c.sync, c.chatty), func(b *testing.B) {
			const builds, every = 200, 20 * time.Millisecond
			agent := startDispatch(b, c.sync, 64)
			written := agent.chat(b, c.chatty)
			agent.started = make(chan begun, builds)
			var took []time.Duration
			for b.Loop() {
				took = append(took, openLoop(b, agent, builds, every)...)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
			b.ReportMetric(float64(written.Load())/(1<<20)/b.Elapsed().Seconds(), "log-MiB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// openLoop submits builds at fixed times and returns the time from when each was due to when its atom began.
func openLoop(b *testing.B, agent *idleAgent, builds int, every time.Duration) []time.Duration {
	b.Helper()
	began := time.Now()
	var g errgroup.Group
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range builds {
		<-ticker.C
		g.Go(func() error {
			job := benchJob(1)
			job.Atoms.List = []string{time.Since(began).String()}
			_, err := agent.loop.Submit(b.Context(), "bench", towpath.Submit{Job: job})
			if err != nil {
				return fmt.Errorf("submit %d: %w", i, err)
			}
			return nil
		})
	}
	var took []time.Duration
	for range builds {
		o := <-agent.started
		due, err := time.ParseDuration(o.atom)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, o.at.Sub(began)-due)
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}

// chat has a build's attempts print without a pause until the end of the benchmark.
func (a *idleAgent) chat(b *testing.B, printers int) *atomic.Int64 {
	b.Helper()
	written := &atomic.Int64{}
	if printers == 0 {
		return written
	}
	if err := a.loop.Call(b.Context(), towpath.Hello{Session: "chatty", Agent: "chatty", Slots: printers, Labels: []string{"chatty"}, Speed: 1}); err != nil {
		b.Fatal(err)
	}
	held := make(chan towpath.Offer, printers)
	a.held.Store(&held)
	job := benchJob(printers)
	job.Labels = []string{"chatty"}
	if _, err := a.loop.Submit(b.Context(), "bench", towpath.Submit{Job: job}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var g errgroup.Group
	for i := range printers {
		o := <-held
		g.Go(func() error {
			// Half noise, half repetition: it packs about as well as the output of tests does.
			r := rand.New(rand.NewPCG(1, uint64(i)))
			data := make([]byte, 64<<10)
			for k := range data {
				data[k] = "0123456789abcdef"[r.IntN(16)]
			}
			for at := int64(0); ; at += int64(len(data)) {
				err := a.loop.Logs(ctx, "chatty", []store.LogChunk{{Attempt: o.Attempt, Offset: at, Data: data}})
				if ctx.Err() != nil {
					return nil //nolint:nilerr // that is how it ends
				}
				if err != nil {
					return err
				}
				written.Add(int64(len(data)))
			}
		})
	}
	g.Go(func() error {
		beat := time.NewTicker(time.Second)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-beat.C:
			}
			if err := a.loop.Call(ctx, towpath.Beat{Session: "chatty"}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
	b.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
	})
	return written
}
