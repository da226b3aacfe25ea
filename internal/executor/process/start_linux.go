package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startRequest asks a starter for a process.
type startRequest struct {
	path string
	argv []string
	attr *os.ProcAttr
	tree *tree
	done chan<- started
}

type started struct {
	p   *os.Process
	err error
}

// start starts a task's main process on a thread that lasts as long as the Executor: the kernel sends the parent-death
// signal when the starting thread ends. A starter that is held up by a file system that is away holds up nobody else,
// and the task no longer than startLimit: the error is then a *lateStartError.
func (h *host) start(ctx context.Context, tr *tree, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	done := make(chan started, 1) // so that a starter never waits
	req := startRequest{path: path, argv: argv, attr: attr, tree: tr, done: done}
	select {
	case h.requests <- req:
	default:
		h.starters.Go(func() { h.starter(req) })
	}
	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case s := <-done:
		return s.p, s.err
	case <-ctx.Done():
		timer.Reset(killLimit)
	case <-timer.C:
		return nil, &lateStartError{done}
	}
	select {
	case s := <-done:
		return s.p, s.err
	case <-timer.C:
		return nil, &lateStartError{done}
	}
}

// lateStartError is the error of a start that was given up and may still come about.
type lateStartError struct{ done <-chan started }

func (l *lateStartError) Error() string { return "the command's start takes too long" }

// await waits until the start has come about or failed; nil: it has failed.
func (l *lateStartError) await() *os.Process {
	s := <-l.done
	return s.p
}

// starter owns a thread. It is woken by requests and ends with the Executor.
func (h *host) starter(req startRequest) {
	runtime.LockOSThread()
	for {
		p, err := h.startHere(req)
		req.done <- started{p, err}
		select {
		case req = <-h.requests:
		case <-h.quit:
			return
		}
	}
}

func (h *host) startHere(req startRequest) (*os.Process, error) {
	if req.tree.limited != nil {
		if err := req.tree.limited.enter(); err != nil {
			return nil, fmt.Errorf("enter memory cgroup: %w", err)
		}
		defer req.tree.limited.leave(h.log)
	}
	req.attr.Sys = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if g := req.tree.group; g != nil {
		req.attr.Sys.UseCgroupFD, req.attr.Sys.CgroupFD = true, g.fd
	}
	touch(req.path, req.attr.Dir)
	p, err := launch(req.path, req.argv, req.attr, req.tree)
	// A file just written by this process is busy while another start that began before it was closed is under way.
	for wait := time.Millisecond; errors.Is(err, syscall.ETXTBSY) && wait < 100*time.Millisecond; wait *= 2 {
		pause(wait)
		p, err = launch(req.path, req.argv, req.attr, req.tree)
	}
	if err != nil {
		return nil, err
	}
	if h.table != nil {
		req.tree.row = h.table.add(p.Pid)
	}
	return p, nil
}

// touch waits for the directory and the program to be there. Between fork and exec the Go runtime waits with all its
// threads at the next collection; a file system that is away is better met here, where only this thread waits.
func touch(path, dir string) {
	var st unix.Stat_t
	_ = unix.Stat(within(dir, "."), &st) // what is wrong shows at the start
	var first [1]byte
	_, _ = readFile(within(dir, path), first[:])
}

// launch starts a process and enters it among the children; tr is nil if it is of no task.
func launch(path string, argv []string, attr *os.ProcAttr, tr *tree) (*os.Process, error) {
	theChildren.starting()
	p, err := os.StartProcess(path, argv, attr)
	if err != nil {
		theChildren.started(0, nil)
		return nil, err
	}
	if tr != nil {
		tr.pid = p.Pid
	}
	theChildren.started(p.Pid, tr)
	return p, nil
}
