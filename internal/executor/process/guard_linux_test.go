package process_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/towpath/towpath/internal/executor/process"
)

// killedParent starts a program that runs a task, waits for the given number of lines and kills the program.
func killedParent(t *testing.T, withoutCgroup bool, guard, text string, lines int) (out []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := collect(lines)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it was only read
	cmd := exec.CommandContext(ctx, self, "__parent", strconv.FormatBool(withoutCgroup), guard, text)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	err = cmd.Start()
	_ = w.Close() // the child has its own copy
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		_, _ = c.Write(buf[:n])
		select {
		case <-c.ready:
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the parent ended by itself")
			}
			return c.lines()
		default:
		}
		if err != nil {
			t.Fatalf("read output of the parent: %v after %q", err, c.lines())
		}
	}
}

const stubborn = `trap '' TERM HUP INT; echo $$
(setsid sh -c 'trap "" TERM HUP; echo $$; while :; do sleep 1000; done' &)
(setsid sh -c '(trap "" TERM HUP; sh -c "echo \$PPID"; while :; do sleep 1000; done) &' &)
while :; do sleep 1000; done`

// It does not run beside others: any New would sweep up what the guard is to kill.
func TestTheGuardEndsTheTasksOfAKilledProgram(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			wantEnded(t, 30*time.Second, killedParent(t, c.WithoutCgroup, "guard", stubborn, 3))
			if c.WithoutCgroup {
				return
			}
			// Its cgroup goes too, and the test waits for it by the next New's sweep at the latest.
			open(t, process.Config{})
			wantNoGroupOfTheDead(t)
		})
	}
}

// It does not run beside others, for the same reason.
func TestNewEndsTheTasksOfAKilledProgramWithoutAGuard(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			pids := killedParent(t, c.WithoutCgroup, "no guard", stubborn, 3)
			living := 0
			for _, pid := range pids {
				if b, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(b), ") Z ") {
					living++
				}
			}
			if living == 0 {
				t.Fatal("nothing outlived the program: the test shows nothing")
			}
			open(t, process.Config{})
			wantEnded(t, 0, pids)
			wantNoGroupOfTheDead(t)
		})
	}
}

func wantNoGroupOfTheDead(t *testing.T) {
	t.Helper()
	groups, err := filepath.Glob("/sys/fs/cgroup/unified/towpath-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if pid := strings.Split(filepath.Base(g), "-"); len(pid) == 4 {
			if _, err := os.Stat("/proc/" + pid[2]); os.IsNotExist(err) {
				t.Errorf("cgroup %s of a dead program is left", g)
			}
		}
	}
}
