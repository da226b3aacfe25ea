//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/towpath/towpath/internal/executor"
)

// Executor runs tasks on this host. Its methods may be called from many goroutines.
type Executor struct {
	log     *slog.Logger
	host    *host
	guard   *guard // nil: none
	null    *os.File
	buffers sync.Pool
	tasks   sync.WaitGroup // waiters of main processes
}

var _ executor.Executor = (*Executor)(nil)

// New returns an Executor after killing what earlier runs that were killed left behind. Close it when no task runs.
func New(c Config) (*Executor, error) {
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open null device: %w", err)
	}
	h, err := newHost(log, !c.WithoutCgroup)
	if err != nil {
		return nil, errors.Join(err, null.Close())
	}
	e := &Executor{log: log, host: h, null: null}
	e.buffers.New = func() any { b := make([]byte, 32<<10); return &b }
	if len(c.Guard) > 0 {
		if e.guard, err = startGuard(c.Guard, h); err != nil {
			return nil, errors.Join(err, h.close(), null.Close())
		}
	}
	return e, nil
}

// Close releases what the Executor holds. No task may be running. It waits for ctx at most.
func (e *Executor) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() { e.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("close executor with processes that do not die: %w", context.Cause(ctx))
	}
	err := e.host.close()
	if e.guard != nil {
		if gerr := e.guard.dismiss(e.host); gerr != nil { // no task is left that it would be missed for
			e.log.Warn("guard of tasks has gone before them", "err", gerr)
		}
	}
	return errors.Join(err, e.null.Close())
}
