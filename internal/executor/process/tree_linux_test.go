package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
	"github.com/towpath/towpath/internal/executor/process"
)

// shell is a task that runs text in a directory.
func shell(tb testing.TB, dir, text string) executor.Task {
	tb.Helper()
	id := strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' {
			return '_'
		}
		return r
	}, tb.Name())
	return executor.Task{ID: id, Argv: []string{"sh", "-c", text}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// collector keeps output and tells when it has n lines.
type collector struct {
	mu    sync.Mutex
	buf   bytes.Buffer // guarded by mu
	want  int
	ready chan struct{} // closed at that many lines
}

func collect(lines int) *collector { return &collector{want: lines, ready: make(chan struct{})} }

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	before := bytes.Count(c.buf.Bytes(), []byte("\n"))
	c.buf.Write(p)
	after := bytes.Count(c.buf.Bytes(), []byte("\n"))
	c.mu.Unlock()
	if before < c.want && after >= c.want {
		close(c.ready)
	}
	return len(p), nil
}

func (c *collector) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Fields(c.buf.String())
}

// cancelWhen runs a task and cancels it when c is ready.
func cancelWhen(t *testing.T, e *process.Executor, c *collector, task executor.Task) (executor.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		select {
		case <-c.ready:
			cancel()
		case <-ctx.Done():
		}
	})
	res, err := e.Run(ctx, task)
	select {
	case <-c.ready:
	default:
		t.Errorf("task wrote only %q", c.lines())
	}
	cancel()
	return res, err
}

// wantEnded checks that processes have ended, or do so within limit.
func wantEnded(t *testing.T, limit time.Duration, pids []string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatalf("open process %d: %v", pid, err)
		}
		var n int
		for {
			left := max(0, time.Until(deadline))
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		_ = unix.Close(fd)
		if n != 1 {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d (%q) lives", pid, cmdline)
		}
	}
}

// escape is shell text that starts processes which leave their parents' group, session and tree, ignore TERM, and hold
// the output; each says its number on a line. The last of the three sheds its environment too.
const escape = `
(setsid sh -c 'trap "" TERM HUP; echo $$; while :; do sleep 1000; done' &)
(setsid sh -c '(trap "" TERM HUP; sh -c "echo \$PPID"; while :; do sleep 1000; done) &' &)
env -i PATH="$PATH" setsid sh -c 'trap "" TERM HUP; echo $$; while :; do sleep 1000; done' &
`

func TestACanceledTreeOfEscapedProcessesIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := collect(4)
			task := shell(t, t.TempDir(), `trap '' TERM; echo $$;`+escape+`while :; do sleep 1000; done`)
			task.Stdout, task.Stderr, task.Grace = out, out, 200*time.Millisecond
			res, err := cancelWhen(t, open(t, c), out, task)
			if err != nil || res.End != executor.EndCanceled || res.Signal != "SIGKILL" || len(res.Leftovers) < 3 {
				t.Errorf("got %+v, %v", res, err)
			}
			wantEnded(t, 0, out.lines())
		})
	}
}

func TestProcessesThatEscapedAreLeftoversOfTheirTask(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := collect(3)
			pids := filepath.Join(t.TempDir(), "pids")
			// The main process ends when the others have said their numbers, a line each.
			task := shell(t, filepath.Dir(pids), `exec >>pids;`+strings.Join(strings.Split(escape, "\n")[:3], "\n")+`
while [ "$(wc -l <pids)" -lt 2 ]; do sleep 0.01; done; exit 4`)
			task.Stdout = out
			res, err := open(t, c).Run(t.Context(), task)
			if err != nil || res.End != executor.EndExited || res.ExitCode != 4 || len(res.Leftovers) < 2 {
				t.Errorf("got %+v, %v", res, err)
			}
			b, err := os.ReadFile(pids)
			if err != nil || len(strings.Fields(string(b))) != 2 {
				t.Fatalf("got numbers %q, %v", b, err)
			}
			wantEnded(t, 0, strings.Fields(string(b)))
		})
	}
}

// It does not run beside others: an orphan that shed its environment is told from those of other tasks only then.
func TestAnUnmarkedOrphanOfTheOnlyTaskIsALeftover(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			task := shell(t, dir, `env -i PATH="$PATH" setsid sh -c 'trap "" TERM HUP; echo $$ >pid; while :; do sleep 1000; done' &
while [ ! -s pid ]; do sleep 0.01; done`)
			res, err := open(t, c).Run(t.Context(), task)
			if err != nil || res.End != executor.EndExited || len(res.Leftovers) == 0 {
				t.Errorf("got %+v, %v", res, err)
			}
			pid, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			wantEnded(t, 0, strings.Fields(string(pid)))
		})
	}
}

func TestFiveHundredChildrenAreGone(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := collect(501)
			task := shell(t, t.TempDir(), `i=0; while [ $i -lt 500 ]; do sleep 1000 & echo $!; i=$((i+1)); done; echo $$; exit 0`)
			task.Stdout = out
			res, err := open(t, c).Run(t.Context(), task)
			if err != nil || res.End != executor.EndExited || res.ExitCode != 0 {
				t.Errorf("got end %s, exit code %d, %v", res.End, res.ExitCode, err)
			}
			if n := len(res.Leftovers); n != 500 {
				t.Errorf("%d leftovers are named, want 500", n)
			}
			wantEnded(t, 0, out.lines())
		})
	}
}

func TestATreeThatKeepsForkingIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := collect(100)
			// Each generation starts the next one in a session of its own and ends; it stops by itself after a while.
			text := `trap "" TERM HUP; echo $$; i=$((${1:-0}+1)); [ $i -lt 20000 ] || exit; setsid sh ./again $i & `
			if err := os.WriteFile(filepath.Join(dir, "again"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			task := shell(t, dir, `trap '' TERM; sh ./again; while :; do sleep 1000; done`)
			task.Stdout, task.Grace = out, 50*time.Millisecond
			res, err := cancelWhen(t, open(t, c), out, task)
			if err != nil || res.End != executor.EndCanceled {
				t.Errorf("got %+v, %v", res, err)
			}
			wantEnded(t, 0, out.lines())
		})
	}
}

// It does not run beside others, whose orphans would be counted.
func TestNoZombieIsLeft(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			c.Guard = guardArgv(t)
			e, err := process.New(c)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 10 {
						task := shell(t, t.TempDir(), `(:&) ; (setsid sh -c : &) ; (sleep 0.01 &) ; (setsid sleep 0.02 &)`)
						if _, err := e.Run(t.Context(), task); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
			stats, err := filepath.Glob("/proc/[0-9]*/stat")
			if err != nil || len(stats) == 0 {
				t.Fatalf("no processes: %v", err)
			}
			for _, path := range stats {
				b, err := os.ReadFile(path)
				if err == nil && strings.Contains(string(b), fmt.Sprintf(") Z %d ", os.Getpid())) {
					t.Errorf("a zombie is left: %s", b)
				}
			}
		})
	}
}

// A tree that is ended looks at all processes, also at those of a task that has the same name.
func TestTasksOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, dir := open(t, c), t.TempDir()
			long := shell(t, dir, `echo runs; read line <pipe; exit 7`)
			began := collect(1)
			long.Stdout = began
			if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if res, err := e.Run(t.Context(), long); err != nil || res.ExitCode != 7 || len(res.Leftovers) > 0 {
					t.Errorf("the other task: got %+v, %v", res, err)
				}
			})
			<-began.ready
			res, err := e.Run(t.Context(), shell(t, dir, `setsid sleep 1000 & :`))
			if err != nil || res.ExitCode != 0 || len(res.Leftovers) != 1 {
				t.Errorf("got %+v, %v", res, err)
			}
			f, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_RDWR, 0)
			if err != nil {
				t.Error(err)
			} else if _, err := f.WriteString("end\n"); err != nil {
				t.Error(err)
			}
			wg.Wait()
			_ = f.Close()
		})
	}
}

func TestTenGigabytesOfOutputNeedLittleMemory(t *testing.T) {
	t.Parallel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var c counter
	task := shell(t, t.TempDir(), `head -c 10737418240 /dev/zero`)
	task.Stdout = &c
	task.Silence, task.Limit = time.Minute, 10*time.Minute
	res, err := open(t, process.Config{}).Run(t.Context(), task)
	runtime.ReadMemStats(&after)
	if err != nil || res.End != executor.EndExited || c != 10<<30 {
		t.Errorf("got %+v, %v after %d bytes", res, err, c)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 128<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func TestOutputHeldOpenByAnOutsiderIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := collect(1)
			dir := t.TempDir()
			if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
				t.Fatal(err)
			}
			task := shell(t, dir, `echo $$; read line <go; exit 9`)
			task.Stdout = out
			held := make(chan *os.File, 1)
			var wg sync.WaitGroup
			wg.Go(func() {
				<-out.ready
				f, err := os.OpenFile("/proc/"+out.lines()[0]+"/fd/1", os.O_WRONLY, 0)
				if err != nil {
					t.Error(err)
				}
				held <- f
				if err := os.WriteFile(filepath.Join(dir, "go"), []byte("go\n"), 0); err != nil {
					t.Error(err)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			res, err := open(t, c).Run(ctx, task)
			wg.Wait()
			if f := <-held; f == nil {
				t.Fatal("the output was not held")
			} else if _, werr := f.WriteString("x"); !errors.Is(werr, unix.EPIPE) {
				t.Errorf("writing to the output after the task's end: %v, want %v", werr, unix.EPIPE)
			} else {
				_ = f.Close()
			}
			if err != nil || res.End != executor.EndExited || res.ExitCode != 9 || ctx.Err() != nil {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

// A process in a frozen cgroup v1 does not die of KILL, like one that waits for a dead disk.
func TestAProcessThatDoesNotDieIsNamed(t *testing.T) {
	t.Parallel()
	const root = "/sys/fs/cgroup/freezer"
	freezer := filepath.Join(root, fmt.Sprintf("towpath-test-%d", os.Getpid()))
	if err := os.Mkdir(freezer, 0o755); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: a process that does not die, for want of a writable cgroup v1 freezer: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(freezer); err != nil {
			t.Error(err)
		}
	})
	set := func(file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(freezer, file), []byte(value), 0); err != nil {
			t.Error(err)
		}
	}
	for name, c := range variants { // one after the other, in the one freezer
		t.Run(name, func(t *testing.T) {
			e := open(t, c)
			out := collect(1)
			task := shell(t, t.TempDir(), `echo $$; exec sleep 987`)
			task.Stdout, task.Grace = out, 100*time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				<-out.ready
				set("cgroup.procs", out.lines()[0])
				set("freezer.state", "FROZEN")
				for state := ""; state != "FROZEN" && ctx.Err() == nil; {
					b, err := os.ReadFile(filepath.Join(freezer, "freezer.state"))
					if err != nil {
						t.Error(err)
						break
					}
					state = strings.TrimSpace(string(b))
				}
				cancel()
			})
			_, err := e.Run(ctx, task)
			wg.Wait()
			set("freezer.state", "THAWED")
			if towpath.CodeOf(err) != towpath.CodeUnavailable || !strings.Contains(err.Error(), out.lines()[0]+" (sleep 987, state D)") {
				t.Errorf("got error %v", err)
			}
			wantEnded(t, time.Minute, out.lines())
		})
	}
}

func TestATaskThatRunsTowpathDiesWithIts(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := collect(3)
			task := shell(t, t.TempDir(), "")
			task.Argv = []string{self, "__parent", strconv.FormatBool(c.WithoutCgroup), "guard", `trap '' TERM; echo $$; (setsid sh -c 'trap "" TERM; echo $$; exec sleep 1000' &); echo $$; while :; do sleep 1000; done`}
			task.Stdout, task.Stderr, task.Grace = out, out, 100*time.Millisecond
			res, err := cancelWhen(t, open(t, c), out, task)
			if err != nil || res.End != executor.EndCanceled {
				t.Errorf("got %+v, %v", res, err)
			}
			wantEnded(t, 0, out.lines())
		})
	}
}
