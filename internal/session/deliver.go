package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/wire"
)

// Waits between attempts to deliver to a sink that is unavailable.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = 5 * time.Second
)

// deliverLoop hands the inbox to the sink, in order but for logs, which go before the inputs they came with: what an
// attempt printed is stored before its report. It wakes when the inbox is filled and ends with the context, a refusal, or
// some time after the agent's goodbye.
func (s *session) deliverLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.in.wake:
		}
		ups := s.in.take()
		if len(ups) == 0 {
			continue
		}
		var logs []LogChunk
		var ins []towpath.Input
		var done uint64 // the last message of which nothing is held back as a part
		goodbye := false
		for _, u := range ups {
			if l := u.GetLog(); l != nil {
				logs = append(logs, s.chunk(l))
				done = u.GetNumber()
				continue
			}
			in := s.inputs.Take(u)
			if in != nil {
				ins = append(ins, in)
			}
			if u.GetCases() == nil && u.GetListed() == nil {
				done = u.GetNumber()
			}
			_, bye := in.(towpath.Goodbye)
			goodbye = goodbye || bye
		}
		if err := s.deliverLogs(ctx, logs); err != nil {
			return err
		}
		if err := s.deliverInputs(ctx, ins); err != nil {
			return s.lost(ctx, err)
		}
		if goodbye {
			s.end(errGoodbye)
		}
		if done > 0 {
			s.box.ack(done)
		}
		if goodbye {
			return s.hangUpLater(ctx, errGoodbye)
		}
	}
}

// beatLoop passes beats on. It is a loop of its own so that they overtake results that the sink is slow to store.
func (s *session) beatLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.beat:
		}
		if err := s.deliverInputs(ctx, []towpath.Input{towpath.Beat{Session: s.id}}); err != nil {
			return s.lost(ctx, err)
		}
	}
}

// lost passes on that the sink declared the session lost, and waits until the send loop, having said so, ends it. Any
// other error it returns at once.
func (s *session) lost(ctx context.Context, err error) error {
	var e *towpath.Error
	if errors.As(err, &e) && e.Code == towpath.CodeSessionLost {
		s.box.refuse(e)
		<-ctx.Done()
	}
	return err
}

// deliverInputs gives ins to the sink until each is accepted or refused.
func (s *session) deliverInputs(ctx context.Context, ins []towpath.Input) error {
	for wait := firstWait; len(ins) > 0; wait = min(2*wait, lastWait) {
		errs := s.cfg.Sink.Inputs(ctx, ins)
		if err := context.Cause(ctx); err != nil && len(errs) > 0 {
			return err
		}
		var again []towpath.Input
		var why error
		for i, err := range errs {
			switch towpath.CodeOf(err) {
			case "":
			case towpath.CodeUnavailable:
				again, why = append(again, ins[i]), err
			case towpath.CodeSessionLost:
				return err
			case towpath.CodeInternal:
				return fmt.Errorf("deliver %T: %w", ins[i], err)
			default:
				s.log.Warn("input refused", "input", fmt.Sprintf("%T", ins[i]), "err", err)
				if started, ok := ins[i].(towpath.Started); ok { // it came too late: nobody waits for what it does
					_ = s.send(towpath.Stop{Session: s.id, Attempt: started.Attempt, Reason: err.Error()}) // what it cannot send ends the session
				}
			}
		}
		if ins = again; len(ins) > 0 {
			if err := s.pause(ctx, wait, why); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *session) deliverLogs(ctx context.Context, logs []LogChunk) error {
	if len(logs) == 0 {
		return nil
	}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := s.cfg.Sink.Logs(ctx, logs)
		if cause := context.Cause(ctx); cause != nil && err != nil {
			return cause
		}
		switch towpath.CodeOf(err) {
		case "":
			return nil
		case towpath.CodeUnavailable:
			if err := s.pause(ctx, wait, err); err != nil {
				return err
			}
		default:
			s.log.Error("log chunks lost", "chunks", len(logs), "err", err)
			return nil
		}
	}
}

// pause waits before the sink is tried again.
func (s *session) pause(ctx context.Context, wait time.Duration, why error) error {
	if wait == firstWait {
		s.log.Warn("sink unavailable", "err", why)
	}
	t := time.NewTimer(wait/2 + rand.N(wait))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func (s *session) chunk(l *wire.Log) LogChunk {
	return LogChunk{
		Session: s.id, Attempt: towpath.AttemptID(l.GetAttempt()), Unit: int(l.GetUnit()), Offset: l.GetOffset(),
		Data: l.GetData(), Gap: l.GetGap(),
	}
}
