package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pythons are where a Python with pytest and xdist may be.
var pythons = []string{"python3", "/usr/bin/python3"}

// pythonWithXdist returns a directory in which python3 has pytest and xdist, to be put before PATH.
func pythonWithXdist(b *testing.B) string {
	b.Helper()
	for _, name := range pythons {
		path, err := exec.LookPath(name)
		if err != nil || exec.CommandContext(b.Context(), path, "-c", "import pytest, xdist").Run() != nil { //nolint:gosec // ours
			continue
		}
		dir := b.TempDir()
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", path)
		if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o700); err != nil { //nolint:gosec // to be run
			b.Fatal(err)
		}
		return dir
	}
	b.Skipf("no pytest with xdist in any of %s", pythons)
	return ""
}

// pytestSuite writes 300 tests of 5 to 25 ms in 12 files.
func pytestSuite(b *testing.B) string {
	b.Helper()
	const files, each = 12, 25
	dir := b.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("pytest.ini", "[pytest]\ntestpaths = tests\n")
	for f := range files {
		var s strings.Builder
		s.WriteString("import time\n")
		for t := range each {
			fmt.Fprintf(&s, "\n\ndef test_%d():\n    time.sleep(%.3f)\n    assert sum(range(%d)) >= 0\n", t, 0.005+float64((f*7+t*3)%21)/1000, 1000*(t+1))
		}
		write(fmt.Sprintf("tests/test_part%d.py", f), s.String())
	}
	return dir
}

// BenchmarkPytest runs 300 short tests in 12 files with pytest-xdist and with towpath run as it recognises them, at the
// same width and from the start of the program to its end: for the first time, and with what the first run taught.
// x_xdist is over xdist as people run it (-n), x_loadfile over xdist that hands out whole files, as Towpath does.
func BenchmarkPytest(b *testing.B) {
	for _, width := range []int{runtime.NumCPU(), 4} {
		b.Run("width="+strconv.Itoa(width), func(b *testing.B) {
			path := pythonWithXdist(b) + string(os.PathListSeparator) + os.Getenv("PATH")
			suite := pytestSuite(b)
			n := strconv.Itoa(width)
			xdist := func(ctx context.Context, more ...string) spent {
				cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `exec python3 -m pytest -q -n "$@"`, "sh", n}, more...)...) //nolint:gosec // a peer
				cmd.Dir = suite
				cmd.Env = append(os.Environ(), "PATH="+path)
				took, out := timedOutput(b, cmd)
				if !bytes.Contains(out, []byte("300 passed")) {
					b.Fatalf("xdist: %s", tail(out))
				}
				return took
			}
			var first, again, load, loadfile, cpu, cpuXdist series
			for b.Loop() {
				xdist(b.Context()) // once, for Python's caches
				for range *rounds {
					p := newProgram(b, suite)
					p.env = []string{"PATH=" + path}
					peer := xdist(b.Context())
					load.add(peer.wall.Seconds())
					cpuXdist.add(peer.cpu.Seconds())
					took, end := p.run(b, nil, "--slots", n)
					if end.Cases.Passed != 300 {
						b.Fatalf("%d of 300 tests passed", end.Cases.Passed)
					}
					first.add(took.wall.Seconds())
					loadfile.add(xdist(b.Context(), "--dist", "loadfile").wall.Seconds())
					took, _ = p.run(b, nil, "--slots", n)
					again.add(took.wall.Seconds())
					cpu.add(took.cpu.Seconds())
				}
			}
			b.ReportMetric(first.over(load), "x_xdist_first")
			b.ReportMetric(again.over(load), "x_xdist")
			b.ReportMetric(again.over(loadfile), "x_loadfile")
			b.ReportMetric(cpu.over(cpuXdist), "x_xdist_cpu")
			b.ReportMetric(again.median(), "s/run")
			b.ReportMetric(load.median(), "s/xdist")
			reportLoad(b)
		})
	}
}

// goPackages are the packages of this repository whose tests are run: they start no Towpath and measure no time.
var goPackages = []string{"internal/agent", "internal/dispatch", "internal/plan", "internal/report", "internal/sched", "internal/session", "internal/store", "internal/wire"}

// goModule copies this module without the tests of other packages, so that a run of all of it does not run itself.
func goModule(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		switch {
		case e.IsDir() && name != "." && !slices.Contains([]string{"client", "cmd", "docs", "internal"}, top):
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o700)
		case !e.Type().IsRegular() || name == "towpath.yaml": // its job is recognised: all packages
			return nil
		case strings.HasSuffix(name, "_test.go") && !slices.ContainsFunc(goPackages, func(p string) bool { return strings.HasPrefix(filepath.ToSlash(name), p+"/") }):
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // of this repository
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, 0o600)
	})
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkGoTest runs the tests of a part of this repository with go test ./... and with towpath run as it recognises
// them, both with all built and no test result cached.
func BenchmarkGoTest(b *testing.B) {
	gotool := tool(b, "go")
	dir := goModule(b)
	const uncached = "GOFLAGS=-count=1"
	peer := func() spent {
		cmd := exec.CommandContext(b.Context(), gotool, "test", "./...") //nolint:gosec // a peer
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), uncached)
		took, _ := timedOutput(b, cmd)
		return took
	}
	var first, again, direct, cpu, cpuDirect series
	for b.Loop() {
		peer() // once, so that all is built
		for range *rounds {
			p := newProgram(b, dir)
			p.env = []string{uncached}
			alone := peer()
			direct.add(alone.wall.Seconds())
			cpuDirect.add(alone.cpu.Seconds())
			took, _ := p.run(b, nil)
			first.add(took.wall.Seconds())
			took, _ = p.run(b, nil)
			again.add(took.wall.Seconds())
			cpu.add(took.cpu.Seconds())
		}
	}
	b.ReportMetric(first.over(direct), "x_gotest_first")
	b.ReportMetric(again.over(direct), "x_gotest")
	b.ReportMetric(cpu.over(cpuDirect), "x_gotest_cpu")
	b.ReportMetric(again.median(), "s/run")
	b.ReportMetric(direct.median(), "s/gotest")
	reportLoad(b)
}
