package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// memoryV1 limits memory by the cgroup v1 controller, where that is what the host has.
type memoryV1 struct {
	own  string // the cgroup of this process
	dir  string // the parent of the tasks' cgroups
	next atomic.Int64
}

// memoryGroup is the v1 memory cgroup of one task.
type memoryGroup struct {
	dir string
	own string
}

// newMemoryV1 returns nil if there is no such controller or it is not this user's to use.
func newMemoryV1(self owner) *memoryV1 {
	own, err := ownCgroup("cgroup", "memory")
	if err != nil {
		return nil
	}
	m := &memoryV1{own: own, dir: filepath.Join(own, fmt.Sprintf("%s%s.%d", groupPrefix, self, executors.Add(1)))}
	if os.Mkdir(m.dir, 0o755) != nil {
		return nil
	}
	return m
}

func (m *memoryV1) close() error { return removeGroups(m.dir) }

func (m *memoryV1) group(bytes int64) (*memoryGroup, error) {
	g := &memoryGroup{dir: filepath.Join(m.dir, strconv.FormatInt(m.next.Add(1), 10)), own: m.own}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make memory cgroup for a task: %w", err)
	}
	n := strconv.AppendInt(nil, bytes, 10)
	if err := writeControl(filepath.Join(g.dir, "memory.limit_in_bytes"), n); err != nil {
		return nil, errors.Join(fmt.Errorf("set memory limit: %w", err), g.remove())
	}
	// Without swap accounting there is no such file.
	if err := writeControl(filepath.Join(g.dir, "memory.memsw.limit_in_bytes"), n); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return nil, errors.Join(fmt.Errorf("set swap limit: %w", err), g.remove())
	}
	return g, nil
}

// enter moves the calling thread into the cgroup, so that a process it starts is inside from its first moment. The
// memory of this process stays where it is: it is counted where the first thread is.
func (g *memoryGroup) enter() error { return moveThread(g.dir) }

// leave moves the calling thread back.
func (g *memoryGroup) leave(log *slog.Logger) {
	if err := moveThread(g.own); err != nil {
		log.Warn("thread stays in a task's memory cgroup", "err", err)
	}
}

func moveThread(dir string) error {
	return writeControl(filepath.Join(dir, "tasks"), strconv.AppendInt(nil, int64(unix.Gettid()), 10))
}

func (g *memoryGroup) oomKills() int64 {
	var buf [256]byte
	b, err := readFile(filepath.Join(g.dir, "memory.oom_control"), buf[:])
	if err != nil {
		return 0
	}
	return field(b, "oom_kill ")
}

func (g *memoryGroup) remove() error { return removeGroups(g.dir) }

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
