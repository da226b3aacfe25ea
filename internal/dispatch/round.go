package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
	"github.com/towpath/towpath/internal/store"
)

// round is what is decided and stored together.
type round struct {
	requests []*request
	logs     []*logRequest
	inputs   int
	bytes    int

	answers  [][]error // of requests
	batch    store.Batch
	commands []towpath.Command
}

func (r *round) add(q *request) {
	r.requests = append(r.requests, q)
	r.inputs += len(q.inputs)
}

func (r *round) addLogs(q *logRequest) {
	r.logs = append(r.logs, q)
	for _, c := range q.chunks {
		r.bytes += len(c.Data)
	}
}

// answer gives every caller of the round the same error.
func (r *round) answer(err error) {
	for _, q := range r.requests {
		q.answer <- repeat(err, len(q.inputs))
	}
	for _, q := range r.logs {
		q.answer <- []error{err}
	}
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// decide settles a round. After an error nothing of it is stored or answered but that error, and the state is of no use.
func (l *Loop) decide(ctx context.Context, r *round) error {
	now := time.Now()
	r.batch.Owner = l.cfg.Owner
	if err := l.step(now, r); err != nil {
		return err
	}
	for _, q := range r.logs {
		r.batch.Logs = l.index.accept(r.batch.Logs, q.session, q.chunks)
	}
	for _, e := range r.batch.Events {
		if _, ok := e.Body.(towpath.BuildFinished); ok {
			l.winding[e.Build] = true
		}
	}
	for n := range l.winding {
		if l.state.Release(n) {
			delete(l.winding, n)
			r.batch.Released = append(r.batch.Released, n)
		}
	}
	if len(r.batch.Events)+len(r.batch.Logs)+len(r.batch.Released) > 0 {
		if err := l.cfg.Store.Commit(ctx, &r.batch); err != nil {
			why := unavailable(err)
			l.trouble.set(why) // before anybody is told to try again
			r.answer(why)
			return err // whole, for the log
		}
		l.retry = 0
	}
	l.act(r)
	return nil
}

// step lets sched decide the inputs of a round, and what is due after them: a session that was heard from is not lost for
// a delay of the loop's own.
func (l *Loop) step(now time.Time, r *round) error {
	for i, q := range r.requests {
		errs := make([]error, len(q.inputs))
		for k, in := range q.inputs {
			events, err := l.state.Step(now, in)
			if towpath.CodeOf(err) == towpath.CodeInternal {
				return l.broken(r, i, k, err)
			}
			errs[k] = err
			l.follow(r, events)
			if done, ok := in.(towpath.AtomDone); ok && err == nil {
				r.keepCases(events, done)
			}
		}
		r.answers = append(r.answers, errs)
	}
	if at, ok := l.state.Next(); ok && !now.Before(at) {
		events, err := l.state.Step(now, towpath.Tick{})
		if err != nil {
			return l.broken(r, -1, 0, err)
		}
		l.follow(r, events)
	}
	return nil
}

// follow notes what is to be stored, and what sessions are to be told once it is.
func (l *Loop) follow(r *round, events []towpath.Event) {
	r.batch.Events = append(r.batch.Events, events...)
	for _, e := range events {
		r.commands = append(r.commands, sched.Commands(e, l.state)...)
	}
}

// keepCases keeps the cases of a report if it was accepted.
func (r *round) keepCases(events []towpath.Event, in towpath.AtomDone) {
	if len(in.Report.Cases) == 0 {
		return
	}
	for _, e := range events {
		v, ok := e.Body.(towpath.AtomReported)
		if ok && v.Attempt == in.Attempt && v.Atom == in.Atom && v.Part == in.Part {
			r.batch.Cases = append(r.batch.Cases, store.AttemptCases{
				Build: e.Build, Attempt: in.Attempt, Atom: in.Atom, Part: in.Part, Cases: in.Report.Cases,
			})
			return
		}
	}
}

// broken answers a round in which the decider failed: the input that it failed on is told so, all others may be tried again.
func (l *Loop) broken(r *round, request, input int, err error) error {
	l.log.Error("decider failed", "err", err)
	again := towpath.Errorf(towpath.CodeUnavailable, "decide: another input failed; try again")
	for i, q := range r.requests {
		errs := repeat(again, len(q.inputs))
		if i == request {
			errs[input] = err
		}
		q.answer <- errs
	}
	for _, q := range r.logs {
		q.answer <- []error{again}
	}
	return err
}

// act does what follows from a stored round. Nothing here waits.
func (l *Loop) act(r *round) {
	l.index.follow(r.batch.Events)
	for _, n := range r.batch.Released {
		l.index.release(n)
	}
	for _, cmd := range r.commands {
		l.send(cmd)
	}
	for _, e := range r.batch.Events {
		switch v := e.Body.(type) {
		case towpath.SessionEnded:
			if v.Lost {
				l.cfg.Sessions.Refuse(v.Session, v.Reason)
			}
		case towpath.SessionDraining:
			l.cfg.Sessions.Drain(v.Session)
		}
		l.seqs[e.Build]++
	}
	l.hub.publish(&r.batch, l.seqs)
	for _, n := range r.batch.Released {
		delete(l.seqs, n)
	}
	for i, q := range r.requests {
		q.answer <- r.answers[i]
	}
	for _, q := range r.logs {
		q.answer <- []error{nil}
	}
}

func (l *Loop) send(cmd towpath.Command) {
	if err := l.cfg.Sessions.Send(cmd); err != nil {
		l.log.Warn("command not sent", "command", fmt.Sprintf("%T", cmd), "err", err)
	}
}

// unavailable makes an error of the store one that callers may try again after.
func unavailable(err error) error {
	if e, ok := errors.AsType[*towpath.Error](err); ok {
		return &towpath.Error{Code: towpath.CodeUnavailable, Message: e.Message, Err: err}
	}
	return &towpath.Error{Code: towpath.CodeUnavailable, Message: "the store does not take what is to be remembered; the log says why", Err: err}
}
