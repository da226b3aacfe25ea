package process

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/towpath/towpath/internal/executor"
)

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
	adopted time.Duration  // CPU time of orphans that were reaped
	known   map[int]uint64 // when each started
}

func (h *host) newTree(t executor.Task) (*tree, error) {
	tr := &tree{host: h, token: h.owner.token(theChildren.distinct(t.ID)), since: ticks(), memory: t.Memory}
	var err error
	if h.groups != nil {
		if tr.group, err = h.groups.get(t.Memory); err != nil {
			h.log.Warn("task runs without a cgroup", "task", t.ID, "err", err)
			tr.group = nil
		} else {
			tr.base, tr.oomBase = tr.group.cpu(), tr.group.oomKills()
		}
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

// doubt is how many further looks it takes to believe that the tree is empty. A cgroup knows; a look through the list of
// processes misses one whose parent forks it and ends while the list is read.
func (tr *tree) doubt() int {
	if tr.group != nil {
		return 0
	}
	return 3
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

// outOfMemory reports whether the kernel killed the task, which ended by itself, for want of memory.
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
	return killed && tr.host.oom.look() > tr.oomBase
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

// maxRSS returns the largest resident size in bytes.
func maxRSS(u *syscall.Rusage) int64 { return int64(u.Maxrss) << 10 } //nolint:unconvert // it is an int32 on some processors
