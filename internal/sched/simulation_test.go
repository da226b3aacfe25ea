package sched_test

import (
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/towpath/towpath/internal/sched"
	"github.com/towpath/towpath/internal/sched/simtest"
)

var (
	schedules = flag.Int("schedules", 8000, "how many fault schedules TestSimulation runs")
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestSimulation")
)

// TestSimulationKeepsEveryPromise runs seeded fault schedules. A failing seed prints a script that Replay reads; put it
// under testdata to keep it.
func TestSimulationKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	var next, steps, events, faults atomic.Int64
	var mu sync.Mutex
	var reached simtest.Reached
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var mine simtest.Reached
			for !t.Failed() {
				i := next.Add(1) - 1
				if i >= int64(*schedules) {
					break
				}
				seed := *firstSeed + uint64(i)
				r := simtest.Run(simtest.Options{Seed: seed, Reached: &mine})
				steps.Add(int64(r.Steps))
				events.Add(int64(r.Events))
				faults.Add(int64(r.Faults))
				if r.Err == nil && (r.Faults < 5 || r.Atoms < 20) {
					t.Errorf("seed %d has %d faults and %d atoms", seed, r.Faults, r.Atoms)
				}
				if r.Err != nil {
					again := simtest.Run(simtest.Options{Seed: seed, Script: true})
					t.Errorf("%v\nscript:\n%s", r.Err, again.Script)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			reached.Add(&mine)
		})
	}
	wg.Wait()
	t.Logf("%d schedules, %d steps, %d events, %d faults", *schedules, steps.Load(), events.Load(), faults.Load())
	if missing := reached.Missing(); len(missing) > 0 && *schedules >= 2000 {
		t.Errorf("%d of %d pairs of fault and state were never reached: %q", len(missing), reached.Pairs(), missing)
	}
}

// TestEventsReplayFromStorage replays them as JSON, at each restart and at the end.
func TestEventsReplayFromStorage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		if r := simtest.Run(simtest.Options{Seed: seed, Stored: true}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// TestSimulationFindsSeededBugs makes the decider commit one mistake after the other: each must be noticed.
func TestSimulationFindsSeededBugs(t *testing.T) {
	t.Parallel()
	for _, bug := range sched.Bugs() {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			flawed := func(cfg sched.Config) *sched.State {
				s := sched.New(cfg)
				s.SetBug(bug)
				return s
			}
			for seed := range uint64(10_000) {
				if r := simtest.Run(simtest.Options{Seed: seed, New: flawed}); r.Err != nil {
					t.Logf("found: %v", r.Err)
					return
				}
			}
			t.Error("not found within 10,000 seeds")
		})
	}
}
