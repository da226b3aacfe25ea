package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

var errStopped = towpath.Errorf(towpath.CodeUnavailable, "Towpath is stopping; nothing new is taken")

// Submit takes a number for a build of a project and submits it. When it returns the build is stored. s.Build and
// s.Estimates and s.Fixed are filled in here.
func (l *Loop) Submit(ctx context.Context, project string, s towpath.Submit) (towpath.BuildNumber, error) {
	now := time.Now()
	n, err := l.cfg.Store.NextBuild(ctx, store.Reservation{Owner: l.cfg.Owner, Project: project, Job: s.Job.Name, At: now})
	if err != nil {
		return 0, fmt.Errorf("submit a build: %w", err)
	}
	s.Build = n
	atoms := s.Job.Atoms.List
	if len(s.Only) > 0 {
		atoms = make([]string, len(s.Only))
		for i, o := range s.Only {
			atoms[i] = o.Atom
		}
	}
	s.Estimates = l.estimates(ctx, project, s.Job.Name, atoms)
	if s.Fixed, err = l.cfg.Store.FixedCost(ctx, project, s.Job.Name); err != nil {
		l.log.Warn("fixed cost not read", "job", s.Job.Name, "err", err) // the build can do without
	}
	l.index.name(n, project)
	if err := l.Call(ctx, s); err != nil {
		if towpath.CodeOf(err) == towpath.CodeConflict { // refused; after anything else it may be stored all the same
			l.index.release(n)
		}
		return 0, fmt.Errorf("submit build %d: %w", n, err)
	}
	return n, nil
}

// Cancel ends a build.
func (l *Loop) Cancel(ctx context.Context, n towpath.BuildNumber, by string) error {
	return l.Call(ctx, towpath.Cancel{Build: n, By: by})
}

// Call has one input decided, and waits until what follows is stored.
func (l *Loop) Call(ctx context.Context, in towpath.Input) error {
	return l.Inputs(ctx, []towpath.Input{in})[0]
}

// Inputs has inputs decided in their order, and waits until what follows is stored. It returns one error for each; nil
// means decided. After CodeUnavailable an input may be tried again; after the end of ctx it may have been decided or not.
func (l *Loop) Inputs(ctx context.Context, ins []towpath.Input) []error {
	if len(ins) == 0 {
		return nil
	}
	for i, in := range ins {
		if done, ok := in.(towpath.Done); ok && len(done.Atoms) > 0 && done.Estimates == nil {
			if project, job, ok := l.index.job(done.Attempt); ok {
				done.Estimates = l.estimates(ctx, project, job, done.Atoms)
				ins[i] = done
			}
		}
	}
	q := &request{inputs: ins, answer: make(chan []error, 1)}
	select {
	case l.requests <- q:
	case <-l.ended:
		return repeat(errStopped, len(ins))
	case <-ctx.Done():
		return repeat(context.Cause(ctx), len(ins))
	}
	errs, err := await(ctx, l.ended, q.answer)
	if err != nil {
		return repeat(err, len(ins))
	}
	return errs
}

// Logs stores log chunks of a session; their Build is filled in here. Chunks of attempts that the session does not have are
// passed over.
func (l *Loop) Logs(ctx context.Context, session towpath.SessionID, chunks []store.LogChunk) error {
	l.cfg.Store.PackLogs(chunks)
	q := &logRequest{session: session, chunks: chunks, answer: make(chan []error, 1)}
	select {
	case l.logs <- q:
	case <-l.ended:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	errs, err := await(ctx, l.ended, q.answer)
	if err != nil {
		return err
	}
	return errs[0]
}

func await(ctx context.Context, ended <-chan struct{}, answer <-chan []error) ([]error, error) {
	select {
	case errs := <-answer:
		return errs, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-ended:
	}
	select {
	case errs := <-answer: // it came just before the end
		return errs, nil
	default:
		return nil, errStopped
	}
}

// estimates gives what is known of atoms. A build can do without, so that it is no error if the store cannot say.
func (l *Loop) estimates(ctx context.Context, project, job string, atoms []string) map[string]towpath.Estimate {
	if len(atoms) == 0 {
		return nil
	}
	found, err := l.cfg.Store.Estimates(ctx, project, job, atoms, time.Now())
	if err != nil {
		l.log.Warn("estimates not read", "job", job, "err", err)
	}
	return found
}
