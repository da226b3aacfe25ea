package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
	"github.com/towpath/towpath/internal/runner"
)

// helperOutput is how much of a runner's helper command is kept, of each of its outputs.
const helperOutput = 64 << 20

// runUnits runs the atoms of the attempt: one command each, or one for as many as a command line can name.
func (a *attempt) runUnits(done *towpath.Done) error {
	done.Outcome = towpath.OutcomePassed // the attempt's: it did what it was offered, whatever the atoms' outcomes
	job := a.offer.Job
	if job.Report.Kind == towpath.ReportJUnit && job.Report.Glob != "" {
		// Files that match in the shared workspace are told apart only by when they were written.
		select {
		case a.s.shared <- struct{}{}:
			defer func() { <-a.s.shared }()
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
	}
	run, err := a.s.cfg.Runner(job.Report.Kind)
	if err != nil {
		return fmt.Errorf("report %s: %w", job.Report.Kind, err)
	}
	if !job.PerAtom {
		first := 0
		for _, units := range groups(job, a.offer.Units) {
			c := &commandRun{a: a, units: units, first: first, done: make([]bool, len(units)), began: make([]bool, len(units))}
			c.run(run)
			if a.ctx.Err() != nil {
				return nil
			}
			first += len(units)
		}
		return nil
	}
	for {
		i, ok := a.take()
		if !ok || a.ctx.Err() != nil {
			return nil
		}
		c := &commandRun{a: a, units: a.offer.Units[i : i+1], first: i, single: true, done: make([]bool, 1), began: make([]bool, 1)}
		c.run(run)
	}
}

// commandRun is one command for some units of the attempt. It is what its runner tells events to.
type commandRun struct {
	a      *attempt
	units  []towpath.OfferedUnit
	first  int  // index of units[0] within the attempt
	single bool // the command is for one unit only, so what it says as a whole is that unit's

	mu    sync.Mutex
	began []bool // +checklocks:mu
	done  []bool // +checklocks:mu
}

// run executes the command and reports each of its units, unless the attempt was stopped before it began.
func (c *commandRun) run(r runner.Runner) {
	a := c.a
	if c.single {
		c.Began(0)
	}
	started := time.Now()
	reports, err := c.execute(r)
	for i := range c.units {
		c.mu.Lock()
		reported := c.done[i]
		c.mu.Unlock()
		if reported {
			continue
		}
		report, ok := reports[i]
		switch {
		case ok:
		case context.Cause(a.ctx) != nil:
			continue // it did not run to its end
		case err != nil:
			report = towpath.AtomReport{
				Outcome: towpath.OutcomeErrored, Reason: err.Error(), Duration: time.Since(started),
			}
		default:
			report = towpath.AtomReport{
				Outcome: towpath.OutcomeErrored, Reason: errNoReport.Error(), Duration: time.Since(started),
			}
		}
		c.Done(i, report)
	}
}

func (c *commandRun) execute(r runner.Runner) (map[int]towpath.AtomReport, error) {
	a, job := c.a, c.a.offer.Job
	names := make([]string, len(c.units))
	for i := range c.units {
		names[i] = c.units[i].Name
	}
	env, err := a.environ(names)
	if err != nil {
		return nil, err
	}
	cmd, reading, err := r.Begin(a.ctx, runner.Spec{
		Job: job, Units: c.units, Base: runner.Command{Argv: command(job, env, names), Dir: a.s.cfg.Dir},
		Dir: a.s.cfg.Dir, Reports: a.dirs.reports, Scratch: a.s.cfg.Scratch, Events: c,
		Exec: func(_ context.Context, h runner.Command, limit time.Duration) ([]byte, []byte, int, error) {
			return a.help(c.log(-1), env, h, limit)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the command: %w", err)
	}
	t := a.task(cmd.Argv, withEnv(env, cmd.Env))
	if cmd.Dir != "" {
		t.Dir = cmd.Dir
	}
	t.Limit = limitOf(c.units)
	t.Stdout, t.Stderr = reading.Stdout(), reading.Stderr()
	ended := runner.Ended{ExitCode: -1, Started: time.Now()}
	result, runErr := a.execute(a.ctx, c.log(-1), t)
	ended.Wall = result.Wall
	if runErr != nil {
		ended.Stopped, ended.Reason = towpath.OutcomeErrored, runErr.Error()
	} else {
		ended.ExitCode, ended.Signal, ended.Stopped = result.ExitCode, result.Signal, stoppedBy(result)
		ended.Reason = reasonOf(result, t)
		if cause := context.Cause(a.ctx); ended.Stopped == towpath.OutcomeCanceled && cause != nil {
			ended.Reason = cause.Error()
		}
	}
	// What the command left is read also when the attempt was stopped meanwhile.
	closing, stop := context.WithTimeout(context.WithoutCancel(a.ctx), closeLimit)
	defer stop()
	reports, err := reading.Close(closing, ended)
	if runErr != nil {
		return nil, runErr
	}
	if err != nil {
		return reports, fmt.Errorf("read the results: %w", err)
	}
	return reports, nil
}

// closeLimit is how long a runner may read what a command left.
const closeLimit = time.Minute

// help runs a runner's helper command to its end. What it prints goes to the runner alone.
func (a *attempt) help(unit int, env []string, h runner.Command, limit time.Duration) (stdout, stderr []byte, exit int, err error) {
	t := a.task(h.Argv, withEnv(env, h.Env))
	if h.Dir != "" {
		t.Dir = h.Dir
	}
	out, errs := &boundedBuffer{limit: helperOutput}, &boundedBuffer{limit: helperOutput}
	t.Stdout, t.Stderr, t.Limit, t.Silence = out, errs, limit, 0
	r, err := a.execute(a.ctx, unit, t)
	if err != nil {
		return nil, nil, -1, err
	}
	if cause := context.Cause(a.ctx); cause != nil {
		return nil, nil, -1, cause
	}
	if r.End != executor.EndExited || r.Signal != "" {
		return out.Bytes(), errs.Bytes(), -1, fmt.Errorf("%s: %s", h.Argv[0], reasonOf(r, t))
	}
	return out.Bytes(), errs.Bytes(), r.ExitCode, nil
}

func withEnv(env, more []string) []string {
	if len(more) == 0 {
		return env
	}
	return append(slices.Clip(env), more...)
}

// log is the index of the log of one of the command's units within the attempt.
func (c *commandRun) log(unit int) int {
	if unit < 0 && !c.single {
		return -1
	}
	return c.first + max(unit, 0)
}

// Began says that a unit has begun. It is said once.
func (c *commandRun) Began(unit int) {
	if unit < 0 || unit >= len(c.units) {
		return
	}
	c.mu.Lock()
	known := c.began[unit]
	c.began[unit] = true
	c.mu.Unlock()
	if known {
		return
	}
	u := c.units[unit]
	c.a.s.say(false, towpath.AtomBegan{Attempt: c.a.offer.Attempt, Atom: u.Atom, Part: u.Part})
}

// Output writes to the log of a unit, or of the command as a whole.
func (c *commandRun) Output(unit int, p []byte) {
	if unit >= len(c.units) {
		unit = -1
	}
	c.a.log.write(c.a.ctx, c.log(unit), p)
}

// Done reports a unit. The first report stands.
func (c *commandRun) Done(unit int, r towpath.AtomReport) {
	if unit < 0 || unit >= len(c.units) {
		return
	}
	c.mu.Lock()
	known := c.done[unit]
	c.done[unit] = true
	c.mu.Unlock()
	if known {
		return
	}
	c.Began(unit)
	u := c.units[unit]
	c.a.log.finish(c.a.ctx, c.log(unit)) // stored before the report
	c.a.s.say(false, towpath.AtomDone{Attempt: c.a.offer.Attempt, Atom: u.Atom, Part: u.Part, Report: r})
}
