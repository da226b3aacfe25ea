package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/towpath/towpath/internal/executor"
)

// maxRSS returns the largest resident size in bytes.
func maxRSS(u *syscall.Rusage) int64 { return int64(u.Maxrss) << 10 }

// host is what the tasks of one Executor share on Linux.
type host struct {
	log      *slog.Logger
	owner    owner
	groups   *groups // nil: without cgroups
	memory   *memoryV1
	oom      oomCounter
	table    *table // for the guard; nil: no guard
	requests chan startRequest
	quit     chan struct{}
	starters sync.WaitGroup
}

func newHost(log *slog.Logger, cgroups bool) (*host, error) {
	self, err := self()
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphans of tasks: %w", err)
	}
	h := &host{log: log, owner: self, requests: make(chan startRequest), quit: make(chan struct{})}
	sweep(log, self)
	h.oom.look()
	if cgroups {
		if h.groups, err = newGroups(self); err != nil {
			log.Info("tasks run without a cgroup", "err", err)
		}
	}
	h.memory = newMemoryV1(self)
	return h, nil
}

func (h *host) close() error {
	close(h.quit)
	h.starters.Wait()
	theChildren.reap()
	var err error
	if h.groups != nil {
		err = h.groups.close()
	}
	if h.memory != nil {
		err = errors.Join(err, h.memory.close())
	}
	return err
}

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
// signal when the starting thread ends. A starter that is held up by a slow file system holds up nobody else.
func (h *host) start(tr *tree, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	done := make(chan started, 1)
	req := startRequest{path: path, argv: argv, attr: attr, tree: tr, done: done}
	select {
	case h.requests <- req:
	default:
		h.starters.Go(func() { h.starter(req) })
	}
	s := <-done
	return s.p, s.err
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

// tree is the processes of one task.
type tree struct {
	host    *host
	token   string // in the environment of its processes
	pid     int    // of the main process, which is also its session and process group; 0: not started
	since   uint64 // no process of the tree started before, in clock ticks
	row     int    // in the guard's table, from 1
	group   *group // nil: none
	limited *memoryGroup
	base    time.Duration // CPU time of earlier tasks in the group
	memory  int64         // of the task
	oomBase int64
	killed  bool          // KILL was sent
	adopted time.Duration // CPU time of orphans that were reaped
	known   map[int]uint64
}

func (h *host) newTree(t executor.Task) (*tree, error) {
	tr := &tree{host: h, token: h.owner.token(t.ID), since: ticks(), memory: t.Memory}
	var err error
	if h.groups != nil {
		if tr.group, err = h.groups.get(t.Memory); err != nil {
			return nil, err
		}
		tr.base = tr.group.cpu()
		tr.oomBase = tr.group.oomKills()
	}
	if t.Memory > 0 && h.memory != nil && (tr.group == nil || !tr.group.limited) {
		if tr.limited, err = h.memory.group(t.Memory); err != nil {
			return nil, errors.Join(err, tr.release())
		}
	}
	if tr.limited == nil && (tr.group == nil || !tr.group.counts) {
		h.oom.refresh()
		tr.oomBase = h.oom.seen.Load()
	}
	return tr, nil
}

// wait waits until the main process has ended and leaves it unreaped, so that its number, its session and its process
// group are nobody else's until release.
func (tr *tree) wait(*os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, tr.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// reap takes the exit of the main process, which has ended.
func (tr *tree) reap(p *os.Process) (*os.ProcessState, error) { return p.Wait() }

// empty reports whether no process of the tree is left, the main one having ended.
func (tr *tree) empty() bool {
	if tr.group != nil && tr.group.populated() {
		return false
	}
	return len(theChildren.orphans(tr)) == 0
}

// members lists the living processes of the tree.
func (tr *tree) members() []executor.Process {
	var ps []executor.Process
	for _, pid := range tr.pids() {
		ps = append(ps, executor.Process{PID: pid, Command: command(pid)})
	}
	return ps
}

func (tr *tree) pids() []int {
	if tr.group != nil {
		pids := append(tr.group.pids(), theChildren.orphans(tr)...)
		slices.Sort(pids)
		return slices.Compact(pids)
	}
	return tr.scan()
}

// signal sends sig once to each process of the tree, also to those that are started meanwhile.
func (tr *tree) signal(sig syscall.Signal) {
	sent := map[int]bool{}
	for range 3 {
		news := false
		for _, pid := range tr.pids() {
			if !sent[pid] {
				sent[pid], news = true, true
				_ = syscall.Kill(pid, sig) // it may be gone by now
			}
		}
		if !news {
			return
		}
	}
}

// kill kills what is there now.
func (tr *tree) kill() {
	tr.killed = true
	_ = syscall.Kill(-tr.pid, syscall.SIGKILL)
	if tr.group != nil {
		_ = tr.group.kill() // whether it helped shows in populated
		for _, pid := range theChildren.orphans(tr) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return
	}
	for _, pid := range tr.scan() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// used returns the CPU time that the tree has used up to now, as far as it is known.
func (tr *tree) used() time.Duration {
	if tr.group != nil {
		return tr.group.cpu() - tr.base
	}
	var sum uint64
	for _, pid := range tr.scan() {
		if s, ok := readStat(pid); ok {
			sum += s.cpu
		}
	}
	return time.Duration(sum) * time.Second / ticksPerSecond
}

// total returns the CPU time of the whole tree, given that of the main process and the children it waited for.
func (tr *tree) total(waited time.Duration) time.Duration {
	if tr.group != nil {
		return max(waited, tr.group.cpu()-tr.base)
	}
	return waited + tr.adopted
}

func (tr *tree) state(pid int) string {
	if s, ok := readStat(pid); ok {
		return string(s.state)
	}
	return "gone"
}

// outOfMemory reports whether the kernel killed the task for want of memory.
func (tr *tree) outOfMemory(status syscall.WaitStatus) bool {
	if status.Exited() && status.ExitStatus() == 0 {
		return false
	}
	if tr.limited != nil {
		return tr.limited.oomKills() > 0
	}
	if tr.group != nil && tr.group.counts {
		return tr.group.oomKills() > tr.oomBase
	}
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL || status.ExitStatus() == 128+int(syscall.SIGKILL)
	return killed && !tr.killed && tr.host.oom.look() > tr.oomBase
}

// release gives back what the tree holds. The main process has been waited for or was never started.
func (tr *tree) release() error {
	if tr.pid != 0 {
		theChildren.forget(tr.pid, tr)
		if tr.host.table != nil {
			tr.host.table.remove(tr.row)
		}
	}
	var err error
	if tr.group != nil {
		err = tr.host.groups.put(tr.group)
	}
	if tr.limited != nil {
		err = errors.Join(err, tr.limited.remove())
	}
	return err
}

// environ is env with the mark by which processes that left the session and the process group are found.
func (tr *tree) environ(env []string) []string { return mark(env, tr.token) }

// oomCounter follows the kernel's count of processes killed for want of memory.
type oomCounter struct {
	seen atomic.Int64
	at   atomic.Int64
}

// look reads the count.
func (c *oomCounter) look() int64 {
	n := vmstat("oom_kill ")
	c.seen.Store(n)
	c.at.Store(time.Now().UnixMilli())
	return n
}

// refresh reads the count unless that was done within the last second.
func (c *oomCounter) refresh() {
	if time.Now().UnixMilli()-c.at.Load() > 1000 {
		c.look()
	}
}
