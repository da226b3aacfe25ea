package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rounds is how often each benchmark of the whole program runs it and its peers in turn. Figures are medians of the rounds.
var rounds = flag.Int("rounds", 5, "rounds of the benchmarks that run the whole program")

// built is where TestMain keeps programs that benchmarks build, once for all of them.
var built string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := withBuilt(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	os.Exit(code)
}

func withBuilt(run func() int) (code int, err error) {
	if built, err = os.MkdirTemp("", "towpath-bench-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(built)) }()
	return run(), nil
}

var buildTowpath = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "towpath")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/towpath").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build towpath: %w: %s", err, out)
	}
	return path, nil
})

// program is Towpath as people run it, with a state directory of its own.
type program struct {
	path  string
	state string
	dir   string
	env   []string
}

func newProgram(tb testing.TB, dir string) program {
	tb.Helper()
	path, err := buildTowpath()
	if err != nil {
		tb.Fatal(err)
	}
	state, err := os.MkdirTemp("", "towpath-bench-state-") //nolint:usetesting // short: sockets in it have a limit
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			tb.Error(err)
		}
	})
	return program{path: path, state: state, dir: dir}
}

// command is towpath with a subcommand and these arguments.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...) //nolint:gosec // the program under test
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Env = append(cmd.Env, "TOWPATH_STATE_DIR="+p.state)
	return cmd
}

// finished is the last line of towpath run --json.
type finished struct {
	Type   string
	State  string
	Reason string
	Atoms  struct{ Total, Passed int }
	Cases  struct{ Total, Passed int }
	Took   float64 `json:"duration_s"`
	Bound  float64 `json:"lower_bound_s"`
}

// spent is what a program took: by the clock, and of the processors, with all processes that it waited for. On a machine
// that is busy with other things the second tells more.
type spent struct{ wall, cpu time.Duration }

// run runs towpath run --json, which must pass, and returns what the whole program took and its last line.
func (p program) run(b *testing.B, stdin []string, args ...string) (spent, finished) {
	b.Helper()
	cmd := p.command(b.Context(), append([]string{"run", "--json", "--no-cases"}, args...)...)
	if stdin != nil {
		cmd.Stdin = strings.NewReader(strings.Join(stdin, "\n") + "\n")
	}
	took, out := timedOutput(b, cmd)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var last finished
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Type != "build_finished" || last.State != "passed" {
		b.Fatalf("towpath %s ended with %s (%v)", args, lines[len(lines)-1], err)
	}
	return took, last
}

// timedOutput runs cmd, which must succeed, and returns what it took and what it printed.
func timedOutput(b *testing.B, cmd *exec.Cmd) (spent, []byte) {
	b.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v\n%s%s", cmd, err, tail(out.Bytes()), tail(errs.Bytes()))
	}
	return spent{took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, out.Bytes()
}

func tail(p []byte) []byte { return p[max(0, len(p)-2000):] }

// series is one quantity over the rounds.
type series []float64

func (s *series) add(v float64) { *s = append(*s, v) }

func (s series) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// quantile is the value below which that share of the series lies.
func (s series) quantile(share float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// over is the median of the ratios of both series, round by round: what disturbed one of a pair likely disturbed both.
func (s series) over(other series) float64 {
	var ratios series
	for i, v := range s {
		ratios.add(v / other[i])
	}
	return ratios.median()
}

// tool is a peer's path; where it is not installed the benchmark says so and does not count.
func tool(b *testing.B, name string) string {
	b.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		b.Skipf("%s is not installed: %v", name, err)
	}
	return path
}

// reportLoad says how busy the machine was, where that is known.
func reportLoad(b *testing.B) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return
	}
	if load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64); err == nil {
		b.ReportMetric(load, "load")
	}
}
