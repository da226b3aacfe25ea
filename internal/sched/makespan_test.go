package sched_test

import (
	"testing"
	"time"

	"github.com/towpath/towpath/internal/sched/simtest"
)

// TestMakespanIsCloseToItsLowerBound holds the figures of the design: 1,000 log-normal atoms on 8 workers of ±20 % speed.
func TestMakespanIsCloseToItsLowerBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		load simtest.Load
		most float64
	}{
		{"fixed cost 0.1 s", simtest.Load{Fixed: 100 * time.Millisecond, PerAtom: true, Known: 1, Noise: 0.3}, 0.015},
		{"fixed cost 0.5 s", simtest.Load{Fixed: 500 * time.Millisecond, PerAtom: true, Known: 1, Noise: 0.3}, 0.04},
		{"fixed cost 2 s", simtest.Load{Fixed: 2 * time.Second, PerAtom: true, Known: 1, Noise: 0.3}, 0.10},
		{"nothing known", simtest.Load{Fixed: 100 * time.Millisecond, PerAtom: true}, 0.08},
		{"one command a batch", simtest.Load{Fixed: 100 * time.Millisecond, Known: 1, Noise: 0.3}, 0.03},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var over float64
			const runs = 20
			for seed := range uint64(runs) {
				load := c.load
				load.Seed, load.Atoms, load.Agents, load.Sigma, load.Speeds = seed, 1000, 8, 1, 0.2
				span, err := simtest.Makespan(load)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				over += span.Over() / runs
				if seed == 0 {
					t.Logf("%d attempts, %d atoms recalled", span.Attempts, span.Recalled)
				}
			}
			t.Logf("%.2f %% over the bound", 100*over)
			if over > c.most {
				t.Errorf("%.2f %% over the lower bound, want at most %.2f %%", 100*over, 100*c.most)
			}
		})
	}
}
