package process

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"
)

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
