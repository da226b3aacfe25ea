package bench_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkCommands runs 1,000 times true, 8 at a time, with Towpath for the first time and again, with xargs and with GNU
// parallel, in turn. x_… are Towpath's times over the peer's: of the whole programs, from start to exit, by the clock or of the processors.
func BenchmarkCommands(b *testing.B) {
	const commands, width = 1000, "8"
	xargs, parallel := tool(b, "xargs"), tool(b, "parallel")
	atoms := make([]string, commands)
	for i := range atoms {
		atoms[i] = "atom-" + strconv.Itoa(i)
	}
	input := strings.Join(atoms, "\n") + "\n"
	peer := func(name string, args ...string) spent {
		cmd := exec.CommandContext(b.Context(), name, args...) //nolint:gosec // a peer
		cmd.Stdin = strings.NewReader(input)
		cmd.Env = append(cmd.Environ(), "PARALLEL_HOME="+b.TempDir()) // no notice about citing
		took, _ := timedOutput(b, cmd)
		return took
	}
	var first, again, byXargs, byParallel, cpu, cpuXargs, cpuParallel series
	for b.Loop() {
		for range *rounds {
			p := newProgram(b, b.TempDir())
			took := peer(xargs, "-P", width, "-n", "1", "true")
			byXargs.add(took.wall.Seconds())
			cpuXargs.add(took.cpu.Seconds())
			took, end := p.run(b, atoms, "--slots", width, "--", "true", "{}")
			if end.Atoms.Passed != commands {
				b.Fatalf("%d of %d atoms passed", end.Atoms.Passed, commands)
			}
			first.add(took.wall.Seconds())
			took = peer(parallel, "-j", width, "true")
			byParallel.add(took.wall.Seconds())
			cpuParallel.add(took.cpu.Seconds())
			took, _ = p.run(b, atoms, "--slots", width, "--", "true", "{}")
			again.add(took.wall.Seconds())
			cpu.add(took.cpu.Seconds())
		}
	}
	b.ReportMetric(first.over(byXargs), "x_xargs_first")
	b.ReportMetric(again.over(byXargs), "x_xargs")
	b.ReportMetric(first.over(byParallel), "x_parallel_first")
	b.ReportMetric(again.over(byParallel), "x_parallel")
	b.ReportMetric(cpu.over(cpuXargs), "x_xargs_cpu")
	b.ReportMetric(cpu.over(cpuParallel), "x_parallel_cpu")
	b.ReportMetric(1e6*again.median()/commands, "us/command")
	b.ReportMetric(1e6*byXargs.median()/commands, "us/xargs_command")
	reportLoad(b)
}

// BenchmarkStart measures from the start of the program to the moment at which its first atom's own first instruction
// reads the clock, with atoms from standard input, so without a search for them. What a shell takes to come so far by
// itself, bare-ms, is part of start-ms.
func BenchmarkStart(b *testing.B) {
	const script = `printf '%s\n' "$EPOCHREALTIME" >>"$0"`
	bash := tool(b, "bash")
	var started, bare, whole series
	for b.Loop() {
		dir := b.TempDir()
		p := newProgram(b, dir)
		for i := range 4 * *rounds {
			file := fmt.Sprintf("%s/bare-%d", dir, i)
			alone, _ := stamp(b, exec.CommandContext(b.Context(), bash, "-c", script, file), file) //nolint:gosec // a peer
			bare.add(alone)

			file = fmt.Sprintf("%s/first-%d", dir, i)
			cmd := p.command(b.Context(), "run", "--slots", "2", "--", bash, "-c", script, file, "{}")
			cmd.Stdin = strings.NewReader("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n")
			at, took := stamp(b, cmd, file)
			started.add(at)
			whole.add(took)
		}
	}
	b.ReportMetric(1e3*started.median(), "start-ms")
	b.ReportMetric(1e3*slices.Max(started), "start-max-ms")
	b.ReportMetric(1e3*bare.median(), "bare-ms")
	b.ReportMetric(1e3*whole.median(), "ten-atoms-ms")
	b.ReportMetric(started.median()/0.1, "x_limit_100ms")
	reportLoad(b)
}

// stamp runs cmd and returns the seconds from its start to the earliest time that was written to file, and to its end.
func stamp(b *testing.B, cmd *exec.Cmd, file string) (first, end float64) {
	b.Helper()
	began := float64(time.Now().UnixNano()) / 1e9
	took, _ := timedOutput(b, cmd)
	text, err := os.ReadFile(file) //nolint:gosec // our own
	if err != nil {
		b.Fatal(err)
	}
	first = math.Inf(1)
	for word := range strings.FieldsSeq(string(text)) {
		at, err := strconv.ParseFloat(strings.Replace(word, ",", ".", 1), 64)
		if err != nil {
			b.Fatal(err)
		}
		first = min(first, at-began)
	}
	return first, took.wall.Seconds()
}
