package bench_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

var buildRiver = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "river")
	cmd := exec.Command("go", "build", "-o", path, "./river")
	cmd.Dir = "peers"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the peer River, which is a module of its own in bench/peers: %w: %s", err, out)
	}
	return path, nil
})

// riverFigures is what the peer prints.
type riverFigures struct {
	Seconds float64
	StartMS []float64 `json:"start_ms"`
}

func river(b *testing.B, args ...string) (f riverFigures) {
	b.Helper()
	path, err := buildRiver()
	if err != nil {
		b.Skip(err) // its module may be out of reach
	}
	_, out := timedOutput(b, exec.CommandContext(b.Context(), path, args...)) //nolint:gosec // a peer
	if err := json.Unmarshal(out, &f); err != nil {
		b.Fatalf("river printed %s: %v", out, err)
	}
	return f
}

// BenchmarkDispatchAgainstRiver submits one build of many atoms to Towpath and inserts as many jobs into River, in turn,
// both on a new SQLite file with the same sync setting and 64 workers that do nothing. x_river is Towpath's atoms a second
// over River's jobs a second.
func BenchmarkDispatchAgainstRiver(b *testing.B) {
	const atoms, workers = 5000, 64
	for _, sync := range []store.Sync{store.SyncNormal, store.SyncFull} {
		b.Run("synchronous="+string(sync), func(b *testing.B) {
			var ours, theirs series
			for b.Loop() {
				for range *rounds {
					agent := startDispatch(b, sync, workers)
					start := time.Now()
					n, err := agent.loop.Submit(b.Context(), "bench", towpath.Submit{Job: benchJob(atoms)})
					if err != nil {
						b.Fatal(err)
					}
					for _, err := range agent.loop.Watch(b.Context(), n, 1) {
						if err != nil {
							b.Fatal(err)
						}
					}
					ours.add(atoms / time.Since(start).Seconds())
					theirs.add(atoms / river(b, "-sync", string(sync), "-jobs", fmt.Sprint(atoms), "-workers", fmt.Sprint(workers)).Seconds)
				}
			}
			b.ReportMetric(ours.median(), "atoms/s")
			b.ReportMetric(theirs.median(), "river_jobs/s")
			b.ReportMetric(ours.over(theirs), "x_river")
			reportLoad(b)
		})
	}
}

// BenchmarkSubmitToStartAgainstRiver is BenchmarkSubmitToStart in turn with River, which takes a job each 20 ms as well.
// x_p50 and x_p99 are Towpath's times over River's.
func BenchmarkSubmitToStartAgainstRiver(b *testing.B) {
	const builds, every = 200, 20 * time.Millisecond
	for _, sync := range []store.Sync{store.SyncNormal, store.SyncFull} {
		b.Run("synchronous="+string(sync), func(b *testing.B) {
			var p50, p99, river50, river99 series
			for b.Loop() {
				for range *rounds {
					agent := startDispatch(b, sync, 64)
					agent.started = make(chan begun, builds)
					var took series
					for _, d := range openLoop(b, agent, builds, every) {
						took.add(1e3 * d.Seconds())
					}
					peer := series(river(b, "-mode", "latency", "-sync", string(sync), "-jobs", fmt.Sprint(builds), "-every", every.String()).StartMS)
					p50.add(took.quantile(0.5))
					p99.add(took.quantile(0.99))
					river50.add(peer.quantile(0.5))
					river99.add(peer.quantile(0.99))
				}
			}
			b.ReportMetric(p50.median(), "p50-ms")
			b.ReportMetric(p99.median(), "p99-ms")
			b.ReportMetric(river50.median(), "river_p50-ms")
			b.ReportMetric(river99.median(), "river_p99-ms")
			b.ReportMetric(p50.over(river50), "x_p50")
			b.ReportMetric(p99.over(river99), "x_p99")
			reportLoad(b)
		})
	}
}
