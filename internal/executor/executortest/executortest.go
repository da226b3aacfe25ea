//go:build unix

// Package executortest is the conformance suite that every executor.Executor passes. Tests of executors call it; the
// commands it runs are those of a POSIX shell.
package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// guardTime ends a test that hangs. It is far above what any task here may take.
const guardTime = 2 * time.Minute

// Run runs the suite. open returns an executor that is closed when the test ends.
func Run(t *testing.T, open func(t *testing.T) executor.Executor) {
	for name, test := range map[string]func(*testing.T, *box){
		"an exit code and both streams come back":                    exitAndStreams,
		"one writer for both streams keeps their order":              oneWriter,
		"a missing writer is no reason to fail":                      noWriter,
		"a signal is named":                                          signalNamed,
		"only the given environment is there":                        environment,
		"standard input is empty":                                    stdinEmpty,
		"a command is found in the task's own path":                  ownPath,
		"a relative command is found in the task's directory":        relativeCommand,
		"what is wrong with a command is told as a fault of the job": badCommands,
		"a task past its limit is stopped":                           limit,
		"a silent task is stopped":                                   silence,
		"output keeps a task from being silent":                      output,
		"a spinning task is told from a blocked one":                 busy,
		"a canceled task is stopped":                                 canceled,
		"a canceled context starts nothing":                          canceledBefore,
		"a task that ignores TERM is killed after its grace":         grace,
		"a task may clean up in its grace":                           cleanUp,
		"a task ends with its main process and names its leftovers":  leftovers,
		"a helper that ends by itself is no leftover":                noLeftover,
		"a canceled tree that ignores TERM and holds output is gone": stubbornTree,
		"a failing writer fails the run and does not block the task": failingWriter,
		"much output passes and its end is not lost":                 muchOutput,
		"tasks run side by side and each gets its own result":        sideBySide,
		"CPU time and memory are measured":                           usage,
		"an unusable writer does not hold a run for ever":            stuckWriter,
		"large arguments pass up to the host's limit":                largeArguments,
		"the limit holds also for a task that keeps writing":         limitOfChatty,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &box{Executor: open(t), dir: t.TempDir()})
		})
	}
}

// box is one test's executor and directory.
type box struct {
	executor.Executor
	dir   string
	tasks atomic.Int64
}

// sh is a task that runs shell text in the box's directory.
func (b *box) sh(text string) executor.Task {
	return executor.Task{
		ID:   fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(b.dir)), b.tasks.Add(1)),
		Argv: []string{"sh", "-c", text},
		Dir:  b.dir,
		Env:  []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir},
	}
}

func (b *box) run(t *testing.T, task executor.Task) executor.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guardTime)
	defer cancel()
	res, err := b.Run(ctx, task)
	if err != nil {
		t.Fatalf("run %v: %v", task.Argv, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("run %v: took longer than %s", task.Argv, guardTime)
	}
	return res
}

// wantExit checks that a task ended by itself with a code.
func wantExit(t *testing.T, res executor.Result, code int) {
	t.Helper()
	if res.End != executor.EndExited || res.ExitCode != code || res.Signal != "" {
		t.Fatalf("got %+v, want exit %d", res, code)
	}
}

// wantGone checks that no process whose number a task wrote into files named pid.* is left.
func (b *box) wantGone(t *testing.T, want int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "pid.*"))
	if err != nil || len(files) != want {
		t.Fatalf("%d processes told their number, want %d (%v)", len(files), want, err)
	}
	for _, f := range files {
		pid, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if alive(strings.TrimSpace(string(pid))) {
			t.Errorf("process %s of %s lives", pid, filepath.Base(f))
		}
	}
}

// watcher is a writer that tells when a text has come.
type watcher struct {
	mu   sync.Mutex
	buf  bytes.Buffer // guarded by mu
	text string
	seen chan struct{} // closed when text came
}

func watch(text string) *watcher { return &watcher{text: text, seen: make(chan struct{})} }

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	before := strings.Contains(w.buf.String(), w.text)
	w.buf.Write(p)
	after := strings.Contains(w.buf.String(), w.text)
	w.mu.Unlock()
	if after && !before {
		close(w.seen)
	}
	return len(p), nil
}

// cancelAt returns a context that ends when w has seen its text.
func cancelAt(t *testing.T, w *watcher) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), guardTime)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-w.seen:
			cancel()
		case <-ctx.Done():
		}
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	return ctx
}

func exitAndStreams(t *testing.T, b *box) {
	var stdout, stderr bytes.Buffer
	task := b.sh(`echo out; echo err >&2; exit 7`)
	task.Stdout, task.Stderr = &stdout, &stderr
	wantExit(t, b.run(t, task), 7)
	if stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
}

func oneWriter(t *testing.T, b *box) {
	var both bytes.Buffer
	task := b.sh(`for i in 1 2 3; do echo out$i; echo err$i >&2; done`)
	task.Stdout, task.Stderr = &both, &both
	wantExit(t, b.run(t, task), 0)
	if want := "out1\nerr1\nout2\nerr2\nout3\nerr3\n"; both.String() != want {
		t.Errorf("got %q, want %q", both.String(), want)
	}
}

func noWriter(t *testing.T, b *box) {
	wantExit(t, b.run(t, b.sh(`echo out; echo err >&2`)), 0)
}

func signalNamed(t *testing.T, b *box) {
	res := b.run(t, b.sh(`kill -SEGV $$`))
	if res.End != executor.EndExited || res.ExitCode != -1 || res.Signal != "SIGSEGV" {
		t.Errorf("got %+v", res)
	}
}

func environment(t *testing.T, b *box) {
	var out bytes.Buffer
	task := b.sh(`env`)
	task.Env = append(task.Env, "GREETING=hello  world")
	task.Stdout = &out
	wantExit(t, b.run(t, task), 0)
	if !strings.Contains(out.String(), "GREETING=hello  world\n") {
		t.Errorf("the given variable is missing: %s", out.String())
	}
	known := []string{"PATH", "HOME", "GREETING", "PWD", "OLDPWD", "SHLVL", "_", "TOWPATH_TASK"}
	for line := range strings.Lines(out.String()) {
		if name, _, _ := strings.Cut(line, "="); !slices.Contains(known, name) {
			t.Errorf("unexpected variable %q", line)
		}
	}
}

func stdinEmpty(t *testing.T, b *box) {
	wantExit(t, b.run(t, b.sh(`if read line; then exit 1; fi`)), 0)
}

func (b *box) script(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func ownPath(t *testing.T, b *box) {
	b.script(t, "bin/greet-the-world", "#!/bin/sh\nexit 5\n", 0o755)
	task := b.sh("")
	task.Argv = []string{"greet-the-world"}
	task.Env = []string{"PATH=/nowhere:" + filepath.Join(b.dir, "bin")}
	wantExit(t, b.run(t, task), 5)
	task.ID += "-relative"
	task.Env = []string{"PATH=bin"}
	wantExit(t, b.run(t, task), 5)
}

func relativeCommand(t *testing.T, b *box) {
	b.script(t, "bin/greet", "#!/bin/sh\nexit 6\n", 0o755)
	task := b.sh("")
	task.Argv = []string{"bin/greet"}
	wantExit(t, b.run(t, task), 6)
}

func badCommands(t *testing.T, b *box) {
	b.script(t, "plain.txt", "#!/bin/sh\n", 0o644)
	b.script(t, "bin/denied", "#!/bin/sh\n", 0o644)
	b.script(t, "orphaned", "#!/no/such/interpreter -x\n", 0o755)
	b.script(t, "garbage", "\x00\x01\x02\x03", 0o755)
	for _, c := range []struct {
		about string
		argv  []string
		dir   string
		want  []string
	}{
		{"no command", nil, b.dir, []string{"no command"}},
		{"not in PATH", []string{"no-such-command-here"}, b.dir, []string{"no-such-command-here", "PATH"}},
		{"no such file", []string{"./nothing"}, b.dir, []string{filepath.Join(b.dir, "nothing"), "no such file"}},
		{"not executable", []string{"./plain.txt"}, b.dir, []string{"plain.txt", "chmod"}},
		{"not executable in PATH", []string{"denied"}, b.dir, []string{"denied", "chmod"}},
		{"directory", []string{"./bin"}, b.dir, []string{"bin", "is a directory"}},
		{"interpreter", []string{"./orphaned"}, b.dir, []string{"orphaned", "/no/such/interpreter"}},
		{"no program", []string{"./garbage"}, b.dir, []string{"garbage", "not a program"}},
		{"no directory", []string{"sh", "-c", ":"}, filepath.Join(b.dir, "gone"), []string{filepath.Join(b.dir, "gone"), "no such file"}},
		{"directory is a file", []string{"sh", "-c", ":"}, filepath.Join(b.dir, "plain.txt"), []string{"plain.txt", "is a file"}},
		{"too long", []string{"sh", "-c", ":", strings.Repeat("x", 8<<20)}, b.dir, []string{"too long", "TOWPATH_ATOMS_FILE"}},
		{"NUL", []string{"sh", "-c", ":", "a\x00b"}, b.dir, []string{"NUL"}},
	} {
		task := b.sh("")
		task.Argv, task.Dir = c.argv, c.dir
		task.Env = append(task.Env, "PATH="+os.Getenv("PATH")+":"+filepath.Join(b.dir, "bin"))
		_, err := b.Run(t.Context(), task)
		if err == nil {
			t.Errorf("%s: no error", c.about)
			continue
		}
		var told *towpath.Error
		if !errors.As(err, &told) || told.Code != towpath.CodeConfig {
			t.Errorf("%s: error %v has code %q, want %q", c.about, err, towpath.CodeOf(err), towpath.CodeConfig)
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", c.about, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %q", c.about, err)
		}
	}
}
