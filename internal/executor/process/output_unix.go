//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// output carries what a task writes to the task's writers.
type output struct {
	stdout, stderr stream
	buffers        *sync.Pool
	stamped        bool
	latest         atomic.Int64 // nanoseconds from began to the last output
	began          time.Time
	copies         atomic.Int32  // streams being copied
	done           chan struct{} // closed when none is
}

// stream is one of a task's output streams.
type stream struct {
	childEnd *os.File
	shared   bool     // childEnd is not this stream's to close
	pipe     *os.File // nil: nothing is copied
	to       io.Writer
	err      error
}

// newOutput opens the pipes of a task. A stream that nobody wants goes to null.
func newOutput(t executor.Task, null *os.File, buffers *sync.Pool) (*output, error) {
	o := &output{buffers: buffers, stamped: t.Silence > 0, began: time.Now(), done: make(chan struct{})}
	if err := o.stdout.open(t.Stdout, null, o.stamped); err != nil {
		return nil, noPipe(err)
	}
	if t.Stdout != nil && same(t.Stdout, t.Stderr) {
		o.stderr = stream{childEnd: o.stdout.childEnd, shared: true}
		return o, nil
	}
	if err := o.stderr.open(t.Stderr, null, o.stamped); err != nil {
		o.abandon()
		return nil, noPipe(err)
	}
	return o, nil
}

func noPipe(err error) error {
	return towpath.Errorf(towpath.CodeUnavailable, "cannot open a pipe for a task's output just now: %w; close other programs or raise the limit of open files", err)
}

func (s *stream) open(to io.Writer, null *os.File, stamped bool) (err error) {
	if to == nil && !stamped {
		s.childEnd, s.shared = null, true
		return nil
	}
	if to == nil {
		to = io.Discard
	}
	s.to = to
	s.pipe, s.childEnd, err = os.Pipe()
	return err
}

// same compares two writers; those that cannot be compared are not the same.
func same(a, b io.Writer) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return a == b
}

// begin starts copying, after the task was started.
func (o *output) begin() {
	o.copies.Store(1)
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		s.closeChildEnd()
		if s.pipe != nil {
			o.copies.Add(1)
			go o.copy(s) // awaited by drain
		}
	}
	o.copied()
}

func (o *output) copied() {
	if o.copies.Add(-1) == 0 {
		close(o.done)
	}
}

func (s *stream) closeChildEnd() {
	if s.childEnd != nil && !s.shared {
		_ = s.childEnd.Close() // the child has its own copy
	}
	s.childEnd = nil
}

// copy owns the reading end of a pipe until it is at its end or past its deadline. What a failing writer does not take
// is read all the same, so that the task does not wait for it.
func (o *output) copy(s *stream) {
	defer o.copied()
	buf := o.buffers.Get().(*[]byte) //nolint:errcheck // the pool makes nothing else
	defer o.buffers.Put(buf)
	for {
		n, err := s.pipe.Read(*buf)
		if n > 0 {
			if o.stamped {
				o.latest.Store(int64(time.Since(o.began)))
			}
			if s.err == nil {
				_, s.err = s.to.Write((*buf)[:n])
			}
		}
		if err != nil {
			if err != io.EOF && !errors.Is(err, os.ErrDeadlineExceeded) && s.err == nil {
				s.err = err
			}
			_ = s.pipe.Close() // it was only read
			return
		}
	}
}

// last returns when the last output came, or started.
func (o *output) last(started time.Time) time.Time {
	if n := o.latest.Load(); n > 0 {
		return o.began.Add(time.Duration(n))
	}
	return started
}

// drain waits until the writers have all that the task wrote. The tree is gone by now: a pipe that is still open is held
// by a process outside, and is given up soon.
func (o *output) drain(ctx context.Context) error {
	deadline := time.Now().Add(drainLimit)
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		if s.pipe != nil {
			_ = s.pipe.SetReadDeadline(deadline) // fails only if it is closed, and then there is nothing to wait for
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit+takeLimit)
	defer cancel()
	select {
	case <-o.done:
		return o.errs()
	case <-ctx.Done():
		return fmt.Errorf("a task's last output was not taken by its writer within %s", takeLimit)
	}
}

func (o *output) errs() error {
	if err := errors.Join(o.stdout.err, o.stderr.err); err != nil {
		return fmt.Errorf("write a task's output: %w", err)
	}
	return nil
}

// abandon gives the pipes up.
func (o *output) abandon() {
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		s.closeChildEnd()
		if s.pipe != nil {
			_ = s.pipe.Close() // it was only read
		}
	}
}
