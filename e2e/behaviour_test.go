package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// finished returns the build_finished object of a run with --json.
func finished(t *testing.T, r result) (o struct {
	Build  int
	State  string
	Atoms  map[string]int
	Cases  map[string]int
	Reason string
},
) {
	t.Helper()
	for line := range strings.Lines(r.stdout) {
		if strings.Contains(line, `"type":"build_finished"`) {
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatal(err)
			}
			return o
		}
	}
	t.Fatalf("no build_finished; exit %d\nstdout:\n%s\nstderr:\n%s", r.code, r.stdout, r.stderr)
	return o
}

// TestWhatATestDoesToItselfIsItsOwnFailure runs atoms that end in every bad way.
func TestWhatATestDoesToItselfIsItsOwnFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		extra  string
		state  string
		code   int
		want   []string
	}{
		"exit status":        {"exit 7", "", "failed", 1, []string{"exit status 7"}},
		"a signal":           {"kill -SEGV $$", "", "failed", 1, []string{"SIGSEGV"}},
		"the atom limit":     {"sleep 600", "    timeouts: {atom: 1s}\n", "failed", 1, []string{"1s"}},
		"silence, blocked":   {"sleep 600", "    timeouts: {silence: 1s}\n", "failed", 1, []string{"no output for 1s", "blocked"}},
		"silence, spinning":  {"while :; do :; done", "    timeouts: {silence: 2s}\n", "failed", 1, []string{"no output for 2s", "CPU"}},
		"five hundred":       {"for i in $(seq 500); do sleep 300 & done; wait", "    timeouts: {atom: 4s}\n", "failed", 1, []string{"4s"}},
		"the build's limit":  {"sleep 600", "    timeouts: {build: 2s}\n", "errored", 3, []string{"2s"}},
		"a grandchild stays": {"(trap '' TERM; sleep 300) & echo left", "", "passed", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, map[string]string{
				"atom.sh":      c.script + "\n",
				"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {list: [one]}\n    run: sh atom.sh\n    report: none\n" + c.extra,
			})
			r := p.towpath("run", "--json")
			b := finished(t, r)
			if b.State != c.state || r.code != c.code {
				t.Errorf("state %s, exit %d; want %s, %d", b.State, r.code, c.state, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("%q is nowhere in what it printed", want)
				}
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
			}
		})
	}
}

// TestTenGigabytesOfOutputAreCutAndTheBuildGoesOn is H4.
func TestTenGigabytesOfOutputAreCutAndTheBuildGoesOn(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"chatty.sh":    "head -c 10737418240 /dev/zero | tr '\\0' x\necho\necho the end\n",
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {list: [chatty]}\n    run: sh chatty.sh\n    report: none\n",
	})
	r := p.towpath("run", "--json")
	b := finished(t, r)
	if b.State != "passed" {
		t.Fatalf("state %s: %s", b.State, r.stdout)
	}
	log := p.towpath("logs", strconv.Itoa(b.Build)).stdout
	if len(log) > 16<<20 || !strings.Contains(log, "were not kept") || !strings.HasSuffix(strings.TrimSpace(log), "the end") {
		t.Errorf("the log has %d bytes and ends in %q", len(log), log[max(0, len(log)-200):])
	}
}

// started starts towpath, and returns when it has printed a line that contains text.
func (p *project) started(text string, args ...string) (wait func() result, pid int) {
	p.t.Helper()
	cmd := p.command(p.t.Context(), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	var seen strings.Builder
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		seen.WriteString(sc.Text() + "\n")
		if strings.Contains(sc.Text(), text) {
			return func() result {
				for sc.Scan() {
					seen.WriteString(sc.Text() + "\n")
				}
				_ = cmd.Wait()
				return result{cmd.ProcessState.ExitCode(), seen.String(), errs.String(), time.Since(start)}
			}, cmd.Process.Pid
		}
	}
	_ = cmd.Wait()
	p.t.Fatalf("%q was never printed; exit %d\n%s\n%s", text, cmd.ProcessState.ExitCode(), seen.String(), errs.String())
	return nil, 0
}

// stubborn is a job of many atoms, each of which ignores TERM and has a grandchild that holds its output open.
func stubborn(t *testing.T) (p *project, marker string) {
	t.Helper()
	marker = strconv.Itoa(100000 + os.Getpid()%100000*7 + int(time.Now().UnixNano()%1000))
	p = newProject(t, map[string]string{
		"atom.sh":      "trap '' TERM\n(trap '' TERM; sleep " + marker + ") &\necho up\nsleep " + marker + "\n",
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {command: seq 91}\n    run: sh atom.sh \"$TOWPATH_ATOM\"\n    batch: 1\n    report: none\n",
	})
	return p, marker
}

// alive counts the processes whose command line holds text.
func alive(t *testing.T, text string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte(text)) {
			n++
		}
	}
	return n
}

// gone waits until no process holds text in its command line.
func gone(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for alive(t, text) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d processes with %s are left", alive(t, text), text)
		}
	}
}

// TestCancelFromAnotherShellEndsTheTreeAndTheWaiter is C9 and C10.
func TestCancelFromAnotherShellEndsTheTreeAndTheWaiter(t *testing.T) {
	t.Parallel()
	p, marker := stubborn(t)
	wait, _ := p.started(`"atom_started"`, "run", "--json")
	if r := p.towpath("cancel", "1"); r.code != 0 {
		t.Fatalf("cancel: exit %d: %s", r.code, r.stderr)
	}
	if r := p.towpath("ps", "--json"); !strings.Contains(r.stdout, `"state":"canceled"`) {
		t.Errorf("right after cancel, ps says %s", r.stdout)
	}
	r := wait()
	b := finished(t, r)
	if r.code != 130 || b.State != "canceled" || b.Atoms["canceled"] != 91 {
		t.Errorf("exit %d, state %s, atoms %v", r.code, b.State, b.Atoms)
	}
	gone(t, marker)
}

func TestCancelEndsAListingThatNeverEnds(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {command: \"echo one; sleep 98765\"}\n    run: \"true\"\n    report: none\n",
	})
	wait, pid := p.started(`"build_started"`, "run", "--json")
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := wait(); r.code != 130 || finished(t, r).State != "canceled" {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	gone(t, "sleep\x0098765")
}

func TestASecondInterruptLeavesAtOnceAndTheTreeDiesAllTheSame(t *testing.T) {
	t.Parallel()
	p, marker := stubborn(t)
	wait, pid := p.started(`"atom_started"`, "run", "--json")
	ended := make(chan result, 1)
	go func() { ended <- wait() }()
	again := time.NewTicker(300 * time.Millisecond) // closer together they are one interrupt
	defer again.Stop()
	for {
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		select {
		case r := <-ended:
			if r.code != 130 || !strings.Contains(r.stderr, "interrupted twice") {
				t.Errorf("exit %d: %s", r.code, r.stderr)
			}
			gone(t, marker)
			return
		case <-again.C:
		}
	}
}

func TestTeardownRunsAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {list: [a]}\n    setup: \"true\"\n    run: sleep 300\n    teardown: sleep 1; touch torn\n    report: none\n",
	})
	wait, pid := p.started(`"atom_started"`, "run", "--json")
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := wait(); r.code != 130 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "torn")); err != nil {
		t.Errorf("the teardown did not run: %v", err)
	}
}

// TestAKilledTowpathLeavesNoProcessAndAnErroredBuild kills the program without warning in the middle of a build.
func TestAKilledTowpathLeavesNoProcessAndAnErroredBuild(t *testing.T) {
	t.Parallel()
	p, marker := stubborn(t)
	if r := p.towpath("run", "--", "true"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	wait, pid := p.started(`"atom_started"`, "run", "--json")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait()
	gone(t, marker)
	r := p.towpath("ps", "--json")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"state":"errored"`) || !strings.Contains(lines[0], fmt.Sprint(pid)) || !strings.Contains(lines[1], `"state":"passed"`) {
		t.Errorf("ps says\n%s", r.stdout)
	}
	if r := p.towpath("run", "--", "true"); r.code != 0 || !strings.Contains(r.stdout, "build 3") {
		t.Errorf("the next build: exit %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}

// TestSeveralRunsShareOneStateDirectory starts builds at once and counts that each has a number and a result of its own.
func TestSeveralRunsShareOneStateDirectory(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	const runs = 6
	results := make(chan result, runs)
	for range runs {
		go func() { results <- p.towpathIn(strings.Repeat("x\n", 1)+"y\nz\n", "run", "--json", "--", "test", "{}") }()
	}
	numbers := map[int]bool{}
	for range runs {
		r := <-results
		b := finished(t, r)
		if r.code != 0 || b.Atoms["passed"] != 3 || numbers[b.Build] {
			t.Errorf("exit %d, build %d, atoms %v: %s", r.code, b.Build, b.Atoms, r.stderr)
		}
		numbers[b.Build] = true
	}
	if r := p.towpath("ps", "--json"); strings.Count(r.stdout, `"state":"passed"`) != runs {
		t.Errorf("ps says\n%s", r.stdout)
	}
}

func TestSetupThatFailsErrorsTheBuildAndShowsWhy(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {list: [a, b]}\n    setup: \"echo no rope in stock >&2; exit 4\"\n    run: \"touch ran\"\n    report: none\n",
	})
	r := p.towpath("run")
	if r.code == 0 || r.code == 1 || !strings.Contains(r.stdout, "no rope in stock") || !strings.Contains(r.stdout, "exit status 4") {
		t.Errorf("exit %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "ran")); err == nil {
		t.Error("an atom ran although setup had failed")
	}
}

func TestAListOfAHundredThousandAtomsIsRunWhole(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {command: seq 100000}\n    run: test -s \"$TOWPATH_ATOMS_FILE\"\n    report: none\n",
	})
	r := p.towpath("run", "--json")
	if b := finished(t, r); r.code != 0 || b.Atoms["passed"] != 100000 {
		t.Errorf("exit %d, atoms %v, %s %s", r.code, b.Atoms, b.Reason, r.stderr)
	}
}
