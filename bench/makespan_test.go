package bench_test

import (
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const (
	sleepers      = 1000
	makespanSlots = 8
	makespanBound = 10.0 // seconds
)

// sleeps are log-normal durations in seconds, sigma 1, whose lower bound on the slots is makespanBound.
func sleeps() (names []string, bound float64) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in every run
	durations := make([]float64, sleepers)
	var sum, longest float64
	for i := range durations {
		durations[i] = math.Exp(random.NormFloat64())
		sum += durations[i]
		longest = max(longest, durations[i])
	}
	scale := makespanBound / max(sum/makespanSlots, longest)
	for i, d := range durations {
		// The index in digits that no clock sees makes each name one of a kind.
		names = append(names, strconv.FormatFloat(d*scale, 'f', 6, 64)+strconv.Itoa(10_000+i))
	}
	return names, max(sum/makespanSlots, longest) * scale
}

// BenchmarkMakespan runs 1,000 sleeps that Towpath knows nothing of, runs them again, and gives them to xargs. x_first_bound
// and x_second_bound are what a build took over its own lower bound, both as its summary says. The others are over the
// bound of the sleeps alone, as if processes started in no time: x_first_build and x_second_build from the build's start to
// its end, x_first and x_second of the whole program, x_xargs of xargs.
func BenchmarkMakespan(b *testing.B) {
	xargs := tool(b, "xargs")
	names, bound := sleeps()
	slots := strconv.Itoa(makespanSlots)
	var first, second, firstBuild, secondBuild, peer, firstOwn, secondOwn series
	for b.Loop() {
		for range *rounds {
			p := newProgram(b, b.TempDir())
			took, end := p.run(b, names, "--slots", slots, "--", "sleep", "{}")
			first.add(took.wall.Seconds() / bound)
			firstBuild.add(end.Took / bound)
			firstOwn.add(end.Took / end.Bound)

			cmd := exec.CommandContext(b.Context(), xargs, "-P", slots, "-n", "1", "sleep") //nolint:gosec // a peer
			cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
			took, _ = timedOutput(b, cmd)
			peer.add(took.wall.Seconds() / bound)

			took, end = p.run(b, names, "--slots", slots, "--", "sleep", "{}")
			second.add(took.wall.Seconds() / bound)
			secondBuild.add(end.Took / bound)
			secondOwn.add(end.Took / end.Bound)
		}
	}
	b.ReportMetric(first.median(), "x_first")
	b.ReportMetric(second.median(), "x_second")
	b.ReportMetric(firstBuild.median(), "x_first_build")
	b.ReportMetric(secondBuild.median(), "x_second_build")
	b.ReportMetric(firstOwn.median(), "x_first_bound")
	b.ReportMetric(secondOwn.median(), "x_second_bound")
	b.ReportMetric(peer.median(), "x_xargs")
	reportLoad(b)
}
