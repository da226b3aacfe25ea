//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// run is one task on its way.
type run struct {
	task      executor.Task
	tree      *tree
	out       *output
	started   time.Time
	ended     chan struct{} // closed when the main process has ended
	endedAt   time.Time     // set before ended is closed
	leftovers []executor.Process
}

// Run implements executor.Executor.
func (e *Executor) Run(ctx context.Context, t executor.Task) (executor.Result, error) {
	if ctx.Err() != nil {
		return executor.Result{End: executor.EndCanceled, ExitCode: -1}, nil
	}
	if t.Grace <= 0 {
		t.Grace = defaultGrace
	}
	path, err := lookUp(t)
	if err != nil {
		return executor.Result{}, err
	}
	r := &run{task: t, ended: make(chan struct{})}
	if r.tree, err = e.host.newTree(t); err != nil {
		return executor.Result{}, err
	}
	r.out, err = newOutput(t, e.null, &e.buffers)
	if err != nil {
		r.release(e)
		return executor.Result{}, err
	}
	r.started = time.Now()
	p, err := r.start(ctx, e, path)
	if late := (*lateStartError)(nil); errors.As(err, &late) {
		e.tasks.Go(func() { r.undo(ctx, e, late) })
		return executor.Result{}, err
	}
	if err != nil {
		r.out.abandon()
		r.release(e)
		return executor.Result{}, err
	}
	e.tasks.Go(func() { r.follow(p) })
	r.out.begin()

	res := executor.Result{End: executor.EndExited, ExitCode: -1}
	res.End, res.Busy = r.watch(ctx)
	if res.End != executor.EndExited {
		err = r.stop(ctx, t.Grace)
	} else {
		err = r.settle(ctx)
	}
	if err != nil {
		r.out.abandon()
		e.tasks.Go(func() { <-r.ended; _, _ = r.tree.reap(p); r.release(e) }) // should it die after all
		return executor.Result{}, err
	}
	defer r.release(e)
	res.Wall = r.endedAt.Sub(r.started)
	res.Leftovers = r.leftovers
	err = r.out.drain(ctx)
	state, werr := r.tree.reap(p)
	if werr != nil {
		return res, errors.Join(fmt.Errorf("wait for task %s: %w", t.ID, werr), err)
	}
	status, usage := state.Sys().(syscall.WaitStatus), state.SysUsage().(*syscall.Rusage) //nolint:errcheck // so it is on every Unix
	if status.Signaled() {
		res.Signal = unix.SignalName(status.Signal())
	} else {
		res.ExitCode = status.ExitStatus()
	}
	res.CPU = r.tree.total(state.UserTime() + state.SystemTime())
	res.MaxRSS = maxRSS(usage)
	if res.End == executor.EndExited && r.tree.outOfMemory(status) {
		res.End = executor.EndMemory
	}
	return res, err
}

// release gives back what the task held on the host. The host may lose a directory by that, not the task its result.
func (r *run) release(e *Executor) {
	if err := r.tree.release(); err != nil {
		e.log.Warn("task not cleaned up after", "task", r.task.ID, "err", err)
	}
}

func (r *run) start(ctx context.Context, e *Executor, path string) (*os.Process, error) {
	p, err := e.host.start(ctx, r.tree, path, r.task.Argv, &os.ProcAttr{
		Dir:   r.task.Dir,
		Env:   r.tree.environ(r.task.Env),
		Files: []*os.File{e.null, r.out.stdout.childEnd, r.out.stderr.childEnd},
	})
	if err != nil {
		return nil, explainStart(r.task, path, err)
	}
	return p, nil
}

// follow waits for the main process.
func (r *run) follow(p *os.Process) {
	r.tree.wait(p)
	r.endedAt = time.Now()
	close(r.ended)
}

// undo waits until a start that was given up has come about or failed, and ends what it started.
func (r *run) undo(ctx context.Context, e *Executor, late *lateStartError) {
	if p := late.await(); p != nil {
		e.tasks.Go(func() { r.follow(p) })
		if err := r.kill(ctx); err != nil {
			e.log.Warn("command that started late does not die", "task", r.task.ID, "err", err)
		}
		<-r.ended
		_, _ = r.tree.reap(p)
	}
	r.out.abandon()
	r.release(e)
}

// watch waits until the main process ends or has to be stopped, and says which. For a stop at a limit it also says how
// busy the tree was in the moments before.
func (r *run) watch(ctx context.Context) (executor.End, float64) {
	if r.task.Limit <= 0 && r.task.Silence <= 0 {
		return r.await(ctx, nil), 0
	}
	window := min(busyWindow, max(r.task.Limit, r.task.Silence)/2)
	timer := time.NewTimer(window)
	defer timer.Stop()
	var sample cpuSample
	for {
		due, end := r.due()
		now := time.Now()
		if !now.Before(due) {
			return end, sample.busy(r.tree)
		}
		next := due.Add(-window)
		if !now.Before(next) {
			if now.Sub(sample.at) > 2*window {
				sample = sampleCPU(r.tree)
			}
			next = due
		}
		timer.Reset(time.Until(next))
		if end := r.await(ctx, timer.C); end != "" {
			return end, 0
		}
	}
}

// await waits for the main process, ctx or wake, for which it returns "". A process that has ended was not stopped.
func (r *run) await(ctx context.Context, wake <-chan time.Time) (end executor.End) {
	select {
	case <-r.ended:
		return executor.EndExited
	case <-ctx.Done():
		end = executor.EndCanceled
	case <-wake:
	}
	select {
	case <-r.ended:
		return executor.EndExited
	default:
		return end
	}
}

// due says when the task has to be stopped next if nothing happens, and why.
func (r *run) due() (time.Time, executor.End) {
	var limit, silence time.Time
	if r.task.Limit > 0 {
		limit = r.started.Add(r.task.Limit)
	}
	if r.task.Silence > 0 {
		silence = r.out.last(r.started).Add(r.task.Silence)
	}
	if limit.IsZero() || !silence.IsZero() && silence.Before(limit) {
		return silence, executor.EndSilence
	}
	return limit, executor.EndLimit
}

// stop ends a tree that runs: TERM, and KILL after grace.
func (r *run) stop(ctx context.Context, grace time.Duration) error {
	r.tree.signal(syscall.SIGTERM)
	if r.gone(ctx, grace) {
		return nil
	}
	return r.kill(ctx)
}

// settle ends what the main process left behind. Helpers such as a tee that has yet to flush get a moment first.
func (r *run) settle(ctx context.Context) error {
	if r.gone(ctx, lingerLimit) {
		return nil
	}
	r.leftovers = r.others()
	r.tree.signal(syscall.SIGTERM)
	if r.gone(ctx, leaveLimit) {
		return nil
	}
	return r.kill(ctx)
}

// kill kills the tree until it is empty.
func (r *run) kill(ctx context.Context) error {
	if r.leftovers == nil {
		r.leftovers = r.others()
	}
	deadline := time.Now().Add(killLimit)
	calm := 0
	for step := 5 * time.Millisecond; ; step = min(2*step, 100*time.Millisecond) {
		r.tree.kill()
		switch {
		case !r.gone(ctx, step):
			calm = 0
		case calm == r.tree.doubt():
			return nil
		default:
			calm++
			continue
		}
		if time.Now().After(deadline) {
			return r.undead()
		}
	}
}

// gone reports whether the tree becomes empty within limit. It does not end with ctx, which is over when a task is
// stopped.
func (r *run) gone(ctx context.Context, limit time.Duration) bool {
	ended := r.ended
	select {
	case <-ended:
		if r.tree.empty() {
			return true
		}
		ended = nil
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for step := time.Millisecond; ; step = min(2*step, 20*time.Millisecond) {
		timer.Reset(step)
		select {
		case <-ctx.Done():
			return false
		case <-ended:
			ended = nil
		case <-timer.C:
		}
		if ended == nil && r.tree.empty() {
			return true
		}
	}
}

// others lists the processes of the tree without the main one.
func (r *run) others() []executor.Process {
	var ps []executor.Process
	for _, m := range r.tree.members() {
		if m.PID != r.tree.pid {
			ps = append(ps, m)
		}
	}
	return ps
}

func (r *run) undead() error {
	var names []string
	for _, m := range r.tree.members() {
		names = append(names, fmt.Sprintf("%d (%s, state %s)", m.PID, m.Command, r.tree.state(m.PID)))
	}
	return towpath.Errorf(towpath.CodeUnavailable, "task %s was killed, but %d of its processes did not die within %s: %s; "+
		"state D is a wait inside the kernel, often for a disk or a network mount that is away", r.task.ID, len(names), killLimit, strings.Join(names, ", "))
}

// cpuSample is the CPU time that a tree had used at a moment.
type cpuSample struct {
	at   time.Time
	used time.Duration
}

func sampleCPU(tr *tree) cpuSample {
	return cpuSample{at: time.Now(), used: tr.used()}
}

// busy returns the CPU seconds per second since the sample.
func (s cpuSample) busy(tr *tree) float64 {
	now := sampleCPU(tr)
	took := now.at.Sub(s.at)
	if s.at.IsZero() || took <= 0 || now.used < s.used {
		return 0
	}
	return now.used.Seconds()/took.Seconds() - s.used.Seconds()/took.Seconds()
}
