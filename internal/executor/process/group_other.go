//go:build unix && !linux

package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/towpath/towpath/internal/executor"
)

// maxRSS returns the largest resident size in bytes, which Darwin counts in bytes and the BSDs in KiB.
func maxRSS(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) << 10
}

// host is what the tasks of one Executor share where only process groups are known: a process that leaves its group
// is not found.
type host struct {
	table *table
}

func newHost(*slog.Logger, bool) (*host, error) { return &host{}, nil }

func (h *host) close() error { return nil }

func (h *host) guardArgs() []string { return nil }

func (h *host) startGuard(argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(argv[0], argv, attr)
}

func (h *host) forgetGuard(int) {}

func newTable() (*table, error) {
	f, err := os.CreateTemp("", "towpath-tasks")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &table{file: f}, nil
}

// guardKill kills the process groups of the given main processes, and reports whether none is left.
func guardKill(_ []string, mains []int) bool {
	deadline := time.Now().Add(killLimit)
	for {
		mains = slices.DeleteFunc(mains, func(pid int) bool { return syscall.Kill(-pid, syscall.SIGKILL) == syscall.ESRCH })
		if len(mains) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(5 * time.Millisecond)
	}
}

// tree is the process group of one task.
type tree struct {
	host   *host
	pid    int // of the main process and the group
	row    int // in the guard's table, from 1
	status *os.ProcessState
	err    error
}

func (h *host) newTree(executor.Task) (*tree, error) { return &tree{host: h}, nil }

// lateStartError is of Linux alone: here a start is waited for.
type lateStartError struct{ error }

func (*lateStartError) await() *os.Process { return nil }

func (h *host) start(_ context.Context, tr *tree, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	attr.Sys = &syscall.SysProcAttr{Setsid: true}
	p, err := os.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	tr.pid = p.Pid
	if h.table != nil {
		tr.row = h.table.add(p.Pid)
	}
	return p, nil
}

func (tr *tree) environ(env []string) []string { return env }

// wait waits until the main process has ended.
func (tr *tree) wait(p *os.Process) { tr.status, tr.err = p.Wait() }

// reap returns how the main process, which has ended, did so.
func (tr *tree) reap(*os.Process) (*os.ProcessState, error) { return tr.status, tr.err }

// doubt is how many further looks it takes to believe that the tree is empty: the kernel knows the process group.
func (tr *tree) doubt() int { return 0 }

func (tr *tree) empty() bool { return syscall.Kill(-tr.pid, 0) == syscall.ESRCH }

// members names the group alone: what is in it is not listed here.
func (tr *tree) members() []executor.Process {
	if tr.empty() {
		return nil
	}
	return []executor.Process{{PID: -tr.pid, Command: "process group"}}
}

func (tr *tree) signal(sig syscall.Signal) { _ = syscall.Kill(-tr.pid, sig) } // it may be gone by now

func (tr *tree) kill() { tr.signal(syscall.SIGKILL) }

func (tr *tree) used() time.Duration { return 0 }

func (tr *tree) total(waited time.Duration) time.Duration { return waited }

func (tr *tree) state(int) string { return "unknown" }

func (tr *tree) outOfMemory(syscall.WaitStatus) bool { return false }

func (tr *tree) release() error {
	if tr.row != 0 {
		tr.host.table.remove(tr.row)
	}
	return nil
}
