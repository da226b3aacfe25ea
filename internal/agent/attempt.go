package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// stopped is the cause with which an attempt ends that was told to.
type stopped string

func (s stopped) Error() string { return string(s) }

// attempt is one attempt of a session.
type attempt struct {
	s     *session
	offer towpath.Offer
	held  []int // slots
	log   *attemptLog
	dirs  dirs
	tasks int // commands started so far, for their names; one goroutine counts

	//nolint:containedctx // it ends when the attempt must; held for the goroutine that run is called on
	ctx  context.Context
	stop context.CancelCauseFunc

	mu   sync.Mutex
	next int // the first unit that has not begun // +checklocks:mu
	end  int // units from here on were recalled // +checklocks:mu
}

func newAttempt(s *session, o towpath.Offer, held []int) *attempt {
	a := &attempt{s: s, offer: o, held: held, end: len(o.Units)}
	a.ctx, a.stop = context.WithCancelCause(s.work)
	a.log = newAttemptLog(s.out, string(o.Attempt), logLimits{head: s.cfg.LogHead, tail: s.cfg.LogTail})
	return a
}

// run does what was offered and says how it ended. Its processes are gone and its logs are in the outbox by then.
func (a *attempt) run() (done towpath.Done) {
	defer a.stop(nil)
	a.s.say(true, towpath.Started{Attempt: a.offer.Attempt})
	defer a.log.close(a.ctx)
	logs := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() { a.log.flushLoop(a.ctx, logs) })
	defer flusher.Wait()
	defer close(logs)

	done = towpath.Done{Attempt: a.offer.Attempt}
	var err error
	switch a.offer.Kind {
	case towpath.AttemptList:
		err = a.list(&done)
	case towpath.AttemptSetup:
		err = a.phase(&done, "setup", a.offer.Job.Setup)
	case towpath.AttemptTeardown:
		err = a.phase(&done, "teardown", a.offer.Job.Teardown)
	case towpath.AttemptRun:
		err = a.runUnits(&done)
	default:
		err = fmt.Errorf("an attempt of kind %q is not known here", a.offer.Kind)
	}
	if cause := context.Cause(a.ctx); cause != nil {
		done.Outcome, done.Reason = towpath.OutcomeCanceled, cause.Error()
	} else if err != nil {
		done.Outcome, done.Reason = towpath.OutcomeErrored, err.Error()
	}
	return done
}

// take begins the next unit, and returns its index.
func (a *attempt) take() (unit int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next >= a.end {
		return 0, false
	}
	a.next++
	return a.next - 1, true
}

// recall gives back up to most units that have not begun, the last ones first. A single command has begun all of its own.
// An answer without units says at once that there are none.
func (a *attempt) recall(most int) {
	if !a.offer.Job.PerAtom || a.offer.Kind != towpath.AttemptRun {
		most = 0
	}
	a.mu.Lock()
	n := max(0, min(most, a.end-a.next))
	a.end -= n
	from := a.end
	a.mu.Unlock()
	r := towpath.Recalled{Attempt: a.offer.Attempt}
	for _, u := range a.offer.Units[from : from+n] {
		r.Units = append(r.Units, u.Unit)
	}
	a.s.say(true, r)
}

// task makes what all commands of this attempt have in common.
func (a *attempt) task(argv, env []string) executor.Task {
	a.tasks++
	return executor.Task{
		ID: fmt.Sprintf("%s-%d", a.offer.Attempt, a.tasks), Argv: argv, Dir: a.s.cfg.Dir, Env: env,
		Silence: a.offer.Job.Timeouts.Silence, Grace: a.s.cfg.Grace,
	}
}

// execute runs a task until ctx ends, and names in the log of unit what outlived it. ctx is the attempt's or one made of it:
// the log is written to also when the command alone was stopped.
func (a *attempt) execute(ctx context.Context, unit int, t executor.Task) (executor.Result, error) {
	r, err := a.s.cfg.Executor.Run(ctx, t)
	if len(r.Leftovers) > 0 {
		a.log.write(a.ctx, unit, []byte(leftovers(r.Leftovers))) //nolint:contextcheck // the log outlives a command that was stopped
	}
	return r, err
}

// phase runs shell text that is no test: its exit status is its outcome.
func (a *attempt) phase(done *towpath.Done, name, text string) error {
	env, err := a.environ(nil)
	if err != nil {
		return err
	}
	last := &lastLines{limit: 2 << 10}
	t := a.task(shell(env, text, nil), env)
	t.Limit = a.offer.Limit
	w := &logWriter{ctx: a.ctx, log: a.log, unit: -1, last: last}
	t.Stdout, t.Stderr = w, w
	r, err := a.execute(a.ctx, -1, t)
	if err != nil {
		return fmt.Errorf("start the %s: %w", name, err)
	}
	done.Outcome, done.Reason = outcomeOf(r, t)
	if done.Outcome != towpath.OutcomePassed {
		done.Reason = last.appendTo(done.Reason)
	}
	return nil
}

// limitOf is the limit of one command for these units.
func limitOf(units []towpath.OfferedUnit) (sum time.Duration) {
	for i := range units {
		if units[i].Limit == 0 {
			return 0
		}
		sum += units[i].Limit
	}
	return sum
}

var errNoReport = errors.New("the runner brought no result for it")
