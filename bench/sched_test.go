package bench_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
	"github.com/towpath/towpath/internal/sched/simtest"
)

// BenchmarkSchedEvents is how many events a second come out of the decider on one core, for a build of 20,000 atoms on 64
// slots, one atom a subjob and batched. The cost of the agents that answer it is within.
func BenchmarkSchedEvents(b *testing.B) {
	for _, c := range []struct {
		name  string
		batch towpath.Batch
	}{{"single", towpath.Batch{Count: 1}}, {"batched", towpath.Batch{}}} {
		b.Run(c.name, func(b *testing.B) {
			events := 0
			for b.Loop() {
				span, err := simtest.Makespan(simtest.Load{
					Seed: 1, Atoms: 20_000, Sigma: 1, Agents: 8, Slots: 8, Fixed: 10 * time.Millisecond, PerAtom: true, Known: 0.9, Noise: 0.3, Batch: c.batch,
				})
				if err != nil {
					b.Fatal(err)
				}
				events += span.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkSchedMemory is the heap in the middle of a build of 100,000 atoms with known durations, and the most that the
// program took from the system for it.
func BenchmarkSchedMemory(b *testing.B) {
	for b.Loop() {
		var before, mid, end runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		measured := false
		span, err := simtest.Makespan(simtest.Load{
			Seed: 1, Atoms: 100_000, Sigma: 1, Agents: 16, Slots: 16, Fixed: 10 * time.Millisecond, PerAtom: true, Known: 0.9, Noise: 0.3,
			OnEvents: func(_ *sched.State, n int) {
				if n > 200_000 && !measured {
					measured = true
					runtime.GC()
					runtime.ReadMemStats(&mid)
				}
			},
		})
		if err != nil || !measured {
			b.Fatalf("%v, after %d events", err, span.Events)
		}
		runtime.ReadMemStats(&end)
		b.ReportMetric(float64(mid.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-live")
		b.ReportMetric(float64(end.HeapSys)/(1<<20), "MiB-most")
	}
}

// BenchmarkSchedMakespan is the simulated time of 1,000 log-normal atoms on 8 workers of ±20 % speed over its lower bound,
// by the fixed cost of a subjob: the mean of 20 draws.
func BenchmarkSchedMakespan(b *testing.B) {
	for _, c := range []struct {
		name string
		load simtest.Load
	}{
		{"fixed=100ms", simtest.Load{Fixed: 100 * time.Millisecond, PerAtom: true, Known: 1, Noise: 0.3}},
		{"fixed=500ms", simtest.Load{Fixed: 500 * time.Millisecond, PerAtom: true, Known: 1, Noise: 0.3}},
		{"fixed=2s", simtest.Load{Fixed: 2 * time.Second, PerAtom: true, Known: 1, Noise: 0.3}},
		{"fixed=100ms/unknown", simtest.Load{Fixed: 100 * time.Millisecond, PerAtom: true}},
		{"fixed=100ms/command", simtest.Load{Fixed: 100 * time.Millisecond, Known: 1, Noise: 0.3}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var over series
			for b.Loop() {
				for seed := range uint64(20) {
					load := c.load
					load.Seed, load.Atoms, load.Agents, load.Sigma, load.Speeds = seed, 1000, 8, 1, 0.2
					span, err := simtest.Makespan(load)
					if err != nil {
						b.Fatal(err)
					}
					over.add(1 + span.Over())
				}
			}
			sum := 0.0
			for _, v := range over {
				sum += v
			}
			b.ReportMetric(sum/float64(len(over)), "x_bound")
			b.ReportMetric(0, "ns/op")
		})
	}
}
