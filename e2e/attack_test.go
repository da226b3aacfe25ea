package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWhoFollowsTheLogOfAKilledBuildIsTold kills towpath while somebody follows its log, who must not wait for ever.
func TestWhoFollowsTheLogOfAKilledBuildIsTold(t *testing.T) {
	t.Parallel()
	p, marker := stubborn(t)
	wait, pid := p.started(`"atom_started"`, "run", "--json")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follower := p.command(ctx, "logs", "-f", "1")
	var out bytes.Buffer
	follower.Stdout, follower.Stderr = &out, &out
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait()
	if err := follower.Wait(); err != nil || ctx.Err() != nil {
		t.Errorf("towpath logs -f of a killed build: %v, %v\n%s", err, ctx.Err(), out.String())
	}
	gone(t, marker)
}

// TestABuildIsNotWorseForItsGuardBeingKilled kills the process that would end a killed towpath's tests.
func TestABuildIsNotWorseForItsGuardBeingKilled(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	wait, pid := p.started(`"atom_started"`, "run", "--json", "--", "sh", "-c", "until test -e go; do sleep 0.05; done")
	if err := syscall.Kill(guardOf(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.write("go", "")
	if r := wait(); r.code != 0 {
		t.Errorf("exit %d of a build that passed: %s", r.code, r.stderr)
	}
}

// guardOf returns the process of a towpath that watches over its end.
func guardOf(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		cmdline, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(cmdline, []byte("__guard")) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err == nil && strings.Contains(string(status), "\nPPid:\t"+strconv.Itoa(pid)+"\n") {
			guard, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			return guard
		}
	}
	t.Fatalf("towpath %d has no guard", pid)
	return 0
}

// TestOutputThatIsCutIsNoSuccess gives towpath a full disk to print to.
func TestOutputThatIsCutIsNoSuccess(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	need(t, "/dev/full", err == nil)
	defer full.Close() //nolint:errcheck // nothing can be in it
	p := newProject(t, nil)
	for _, c := range []struct {
		about string
		args  []string
		want  int
	}{
		{"lines", []string{"run", "--", "true"}, 3},
		{"objects", []string{"run", "--json", "--", "true"}, 3},
		{"a failure, which says more", []string{"run", "--json", "--", "false"}, 1},
		{"a list", []string{"ps"}, 3},
		{"one line", []string{"version"}, 3},
	} {
		cmd := p.command(t.Context(), c.args...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.want || c.want == 3 && strings.Count(errs.String(), "no space left") != 1 {
			t.Errorf("%s: exit %d, want %d: %s", c.about, code, c.want, errs.String())
		}
	}
}

// TestAPathThatIsNoTextIsOneProject runs in a directory whose name is not UTF-8 and asks for the build afterwards.
func TestAPathThatIsNoTextIsOneProject(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.dir = filepath.Join(p.dir, "quay\xff")
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Skipf("this file system takes UTF-8 names only: %v", err)
	}
	if r := p.towpath("run", "--", "true"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if r := p.towpath("ps"); r.code != 0 || !strings.Contains(r.stdout, "passed") {
		t.Errorf("exit %d: ps after the run says %s%s", r.code, r.stdout, r.stderr)
	}
}
