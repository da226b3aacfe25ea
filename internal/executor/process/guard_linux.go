package process

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func newTable() (*table, error) {
	fd, err := unix.MemfdCreate("towpath-tasks", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return &table{file: os.NewFile(uintptr(fd), "tasks")}, nil
}

func (h *host) startGuard(argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return launch(argv[0], argv, attr, nil)
}

func (h *host) forgetGuard(pid int) { theChildren.forget(pid, nil) }

// guardArgs is what the guard has to know.
func (h *host) guardArgs() []string {
	args := []string{h.owner.String()}
	if h.groups != nil {
		args = append(args, h.groups.dir)
	}
	return args
}

// guardKill kills the tasks of the owner named by args, and reports whether none is left.
func guardKill(args []string, mains []int) bool {
	if len(args) == 0 {
		return false
	}
	owner := args[0]
	groupGone := true
	if len(args) > 1 {
		groupGone = endGroups(args[1])
	}
	of := func(tokens []string) bool {
		return slices.ContainsFunc(tokens, func(t string) bool { return strings.HasPrefix(t, owner+".") })
	}
	return killWhere(func(s procStat) bool {
		return slices.Contains(mains, s.session) || slices.Contains(mains, s.pgrp) || of(marks(s.pid))
	}) && groupGone
}

// killWhere kills the processes that a condition holds for and their descendants until there are none, for as long as
// killLimit, and reports whether there are none. It never kills this process or one that it descends from.
func killWhere(inside func(procStat) bool) bool {
	deadline := time.Now().Add(killLimit)
	known := map[int]uint64{}
	step := 2 * time.Millisecond
	for {
		if len(killOnce(inside, known)) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		pause(step)
		step = min(2*step, 50*time.Millisecond)
	}
}

func killOnce(inside func(procStat) bool, known map[int]uint64) []int {
	all := map[int]procStat{}
	for _, pid := range processes() {
		if s, ok := readStat(pid); ok {
			all[pid] = s
		}
	}
	spared := map[int]bool{1: true}
	for pid := os.Getpid(); pid > 1 && !spared[pid]; pid = all[pid].ppid {
		spared[pid] = true
	}
	var killed []int
	for pid, s := range all {
		start, was := known[pid]
		if spared[pid] || s.dead() || !was && !inside(s) || was && start != s.start {
			continue
		}
		known[pid] = s.start
		for child, c := range all { // found again by this when their parent is gone
			if c.ppid == pid {
				known[child] = c.start
			}
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		killed = append(killed, pid)
	}
	return killed
}

// endGroups kills what runs in a cgroup and below and removes them, and reports whether that is done.
func endGroups(dir string) bool {
	deadline := time.Now().Add(killLimit)
	for step := time.Millisecond; ; step = min(2*step, 50*time.Millisecond) {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return true
		}
		_ = killGroup(dir) // whether it helped shows below
		if removeGroups(dir) == nil {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		pause(step)
	}
}

// pause waits in a process, or a part of New, that has nothing else to do and a deadline of its own.
func pause(d time.Duration) { <-time.After(d) }
