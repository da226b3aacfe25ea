package process

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// theChildren is the one register of this process's children: orphans come to the process, not to an Executor.
var theChildren = children{own: map[int]*tree{}, session: sessionOf(os.Getpid())}

// children tells the processes that were started for tasks from orphans of their trees that this process was given.
type children struct {
	session int
	mu      sync.Mutex
	// The rest is guarded by mu.
	own     map[int]*tree // started by an Executor and not yet waited for; the tree is nil for a guard
	begun   int           // starts
	settled int           // starts of which it is known whether there is a process, and which
	trees   int           // that have a main process
	made    int           // names given to trees
}

// distinct makes the name of a task one that no other tree has. Callers may run several tasks of one name at once, and a
// tree that finds its own mark on another's process kills it, or takes its exit before its start is known here.
func (c *children) distinct(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	return strconv.Itoa(c.made) + "." + id
}

func sessionOf(pid int) int {
	sid, _ := unix.Getsid(pid)
	return sid
}

func (c *children) starting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
}

// started ends what starting began; pid is 0 if there is no process. A guard belongs to no tree.
func (c *children) started(pid int, tr *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled++
	if pid == 0 {
		return
	}
	c.own[pid] = tr
	if tr != nil {
		c.trees++
	}
}

// forget forgets a child that was waited for. Its number may be another's by now.
func (c *children) forget(pid int, tr *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own[pid] == tr {
		delete(c.own, pid)
	}
	if tr != nil {
		c.trees--
	}
}

// strangers lists the children of this process that no Executor started, and whether the list is certain: a process whose
// start is under way looks like a stranger.
func (c *children) strangers() (pids []int, certain bool, trees int) {
	c.mu.Lock()
	begun, quiet := c.begun, c.begun == c.settled
	c.mu.Unlock()
	listed := listChildren()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pid := range listed {
		if _, own := c.own[pid]; !own {
			pids = append(pids, pid)
		}
	}
	return pids, quiet && begun == c.begun, c.trees
}

// listChildren lists the children of this process's first thread, to which the kernel gives orphans.
func listChildren() []int {
	self := strconv.Itoa(os.Getpid())
	buf := make([]byte, 4<<10)
	for {
		b, err := readFile("/proc/self/task/"+self+"/children", buf)
		if err != nil {
			return scanChildren()
		}
		if len(b) < len(buf) {
			var pids []int
			for s := range strings.FieldsSeq(string(b)) {
				pid, err := strconv.Atoi(s)
				if err == nil {
					pids = append(pids, pid)
				}
			}
			return pids
		}
		buf = make([]byte, 4*len(buf))
	}
}

// scanChildren is listChildren for kernels that do not list them.
func scanChildren() []int {
	var pids []int
	self := os.Getpid()
	for _, pid := range processes() {
		if s, ok := readStat(pid); ok && s.ppid == self {
			pids = append(pids, pid)
		}
	}
	return pids
}

// orphans lists the living orphans of a tree, and reaps those that have ended. An orphan that shed every mark is taken for
// the tree's own if no cgroup tells and no other tree can have had it.
func (c *children) orphans(tr *tree) []int {
	strangers, certain, trees := c.strangers()
	var pids []int
	for _, pid := range strangers {
		s, ok := readStat(pid)
		if !ok || s.session == c.session {
			continue
		}
		start, known := tr.known[pid]
		inside := known && start == s.start || s.session == tr.pid || s.pgrp == tr.pid
		if s.dead() {
			if inside || certain {
				tr.adopted += reap(pid)
			}
			continue
		}
		if !inside {
			ms := marks(pid)
			inside = slices.Contains(ms, tr.token) || len(ms) == 0 && certain && tr.mayOwn(s, trees)
		}
		if inside {
			tr.know(pid, s.start)
			pids = append(pids, pid)
		}
	}
	return pids
}

// mayOwn reports whether an unmarked orphan can only be of this tree: process 1 gets also those of others.
func (tr *tree) mayOwn(s procStat, trees int) bool {
	return tr.group == nil && trees == 1 && s.start+1 >= tr.since && os.Getpid() != 1
}

// reap reaps the ended orphans of all trees. No task runs.
func (c *children) reap() {
	strangers, certain, _ := c.strangers()
	for _, pid := range strangers {
		if s, ok := readStat(pid); ok && certain && s.dead() && s.session != c.session {
			reap(pid)
		}
	}
}

// reap takes the exit of a child that has ended, and returns its CPU time.
func reap(pid int) time.Duration {
	var usage unix.Rusage
	got, err := retry(func() (int, error) { return unix.Wait4(pid, nil, unix.WNOHANG, &usage) })
	if err != nil || got != pid {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (tr *tree) know(pid int, start uint64) {
	if tr.known == nil {
		tr.known = map[int]uint64{}
	}
	tr.known[pid] = start
}

// scan lists the living processes of the tree by looking at all processes there are: those of the main process's session
// or group, those that carry the tree's mark, orphans of it, and the descendants of all these.
func (tr *tree) scan() []int {
	inside := map[int]bool{}
	for _, pid := range theChildren.orphans(tr) {
		inside[pid] = true
	}
	var all []procStat
	self := os.Getpid()
	for _, pid := range processes() {
		s, ok := readStat(pid)
		if !ok || s.start+1 < tr.since || pid == self {
			continue
		}
		all = append(all, s)
		start, known := tr.known[pid]
		switch {
		case known && start == s.start, pid == tr.pid, s.session == tr.pid, s.pgrp == tr.pid:
			inside[pid] = true
		case !inside[pid] && !s.dead() && slices.Contains(marks(pid), tr.token):
			inside[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			if !inside[s.pid] && inside[s.ppid] {
				inside[s.pid], grown = true, true
			}
		}
	}
	for _, s := range all {
		if !inside[s.pid] {
			continue
		}
		if s.dead() {
			delete(inside, s.pid)
		} else {
			tr.know(s.pid, s.start)
		}
	}
	return slices.Sorted(maps.Keys(inside))
}
