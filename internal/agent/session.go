package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/wire"
)

var (
	errDrained = errors.New("drained")
	errHungUp  = errors.New("the server hung up")
	errStopped = errors.New("the agent was stopped")
)

// helloLimit is how long a server may take to open a session.
const helloLimit = 30 * time.Second

// session is one registration of this agent, over one connection. Its attempts end with it.
type session struct {
	cfg     Config
	log     *slog.Logger
	started time.Time
	out     *outbox
	shared  chan struct{} // one token: held by the attempt that must be alone in the workspace

	opened  chan struct{}          // holds one token once the server has opened the one stream
	ended   chan error             // holds why the session ends; the first counts
	drain   chan struct{}          // holds one token once the server asked us to leave
	welcome chan towpath.SessionID // holds the session's id, once

	welcomed bool // the server knows this session; the goroutine of live's own

	attempts sync.WaitGroup
	work     context.Context //nolint:containedctx // of all attempts, which other goroutines start
	cutWork  context.CancelCauseFunc

	mu       sync.Mutex
	slots    slots                          // +checklocks:mu
	running  map[towpath.AttemptID]*attempt // +checklocks:mu
	seen     recent                         // +checklocks:mu
	draining bool                           // +checklocks:mu
	idle     chan struct{}                  // holds one token after an attempt has ended
}

// serve holds one session over conn, and says why it ended.
func serve(ctx context.Context, cfg Config, conn net.Conn) error {
	link, hangUp := context.WithCancelCause(context.WithoutCancel(ctx)) // outlives ctx until all is said
	defer hangUp(nil)
	s := &session{
		cfg: cfg, log: cfg.Logger, started: time.Now(), out: newOutbox(cfg.LogWindow), slots: make(slots, cfg.Slots),
		shared: make(chan struct{}, 1), opened: make(chan struct{}, 1),
		ended: make(chan error, 1), drain: make(chan struct{}, 1), welcome: make(chan towpath.SessionID, 1),
		running: make(map[towpath.AttemptID]*attempt), idle: make(chan struct{}, 1),
	}
	s.work, s.cutWork = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.cutWork(nil)

	var loops sync.WaitGroup
	loops.Go(func() {
		err := wrapHungUp(wire.Serve(link, conn, s))
		s.end(err)
		hangUp(err) // nobody is left to acknowledge anything
	})
	loops.Go(func() { s.beatLoop(link) })
	why := s.live(ctx)
	if s.welcomed && (errors.Is(why, errStopped) || errors.Is(why, errDrained)) {
		s.refuseAll()
		s.cutWork(why)
		s.attempts.Wait() // bounded: the executor stops a task in bounded time
		s.say(true, towpath.Goodbye{Reason: why.Error()})
		flush, stop := context.WithTimeout(link, cfg.FlushLimit)
		if err := s.out.flushed(flush); err != nil {
			s.log.Warn("results not acknowledged", "err", err)
		}
		stop()
	}
	hangUp(why)
	loops.Wait()
	s.cutWork(why)
	s.attempts.Wait()
	return why
}

// refuseAll lets no more attempts begin.
func (s *session) refuseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

func wrapHungUp(err error) error {
	if err == nil {
		return errHungUp
	}
	return fmt.Errorf("%w: %w", errHungUp, err)
}

// live waits for what ends the session.
func (s *session) live(ctx context.Context) error {
	hello := time.NewTimer(helloLimit)
	defer hello.Stop()
	for {
		select {
		case <-ctx.Done():
			return errStopped
		case err := <-s.ended:
			return err
		case id := <-s.welcome:
			hello.Stop()
			s.welcomed = true
			s.log.Info("session opened", "session", string(id))
		case <-hello.C:
			return fmt.Errorf("%w: it opened no session within %s", errHungUp, helloLimit)
		case <-s.drain:
			s.refuseAll()
			s.say(true, towpath.Drain{})
			signal(s.idle)
		case <-s.idle:
			s.mu.Lock()
			done := s.draining && len(s.running) == 0
			s.mu.Unlock()
			if done {
				return errDrained
			}
		}
	}
}

// end settles why the session ends; the first call counts.
func (s *session) end(why error) {
	select {
	case s.ended <- why:
	default:
	}
}

// Session serves the one call of the server. It returns when the connection is closed.
func (s *session) Session(ctx context.Context, stream *connect.BidiStream[wire.Downs, wire.Ups]) error {
	select {
	case s.opened <- struct{}{}:
	default:
		return connect.NewError(connect.CodeAlreadyExists, errors.New("this connection has its session"))
	}
	var sender sync.WaitGroup
	defer sender.Wait() // no write may outlive this call
	sender.Go(func() { s.sendLoop(ctx, stream) })
	commands := wire.Commands{}
	for {
		m, err := stream.Receive()
		if err != nil {
			s.end(wrapHungUp(err))
			<-ctx.Done() // the sender may still use the stream; the connection is closed once the session has ended
			return context.Cause(ctx)
		}
		for _, d := range m.GetDowns() {
			s.hear(ctx, &commands, d)
		}
	}
}

// hear acts on one message. It never waits.
func (s *session) hear(ctx context.Context, commands *wire.Commands, d *wire.Down) {
	switch b := d.GetBody().(type) {
	case *wire.Down_Welcome:
		commands.Session = towpath.SessionID(b.Welcome.GetSession())
		select {
		case s.welcome <- commands.Session:
		default:
		}
	case *wire.Down_Refusal:
		s.end(towpath.Errorf(towpath.Code(b.Refusal.GetCode()), "%s", b.Refusal.GetMessage()))
	case *wire.Down_Echo:
		// The lease's renewal. What it decides needs a supervisor beside the agent; see design § 5.
	case *wire.Down_Ack:
		s.out.ack(b.Ack.GetNumber())
	case *wire.Down_Drain:
		signal(s.drain)
	default:
		cmd, err := commands.Take(d)
		if err != nil {
			s.log.ErrorContext(ctx, "offer not understood", "err", err)
		}
		switch cmd := cmd.(type) {
		case towpath.Offer:
			s.offered(cmd, err) //nolint:contextcheck // an attempt lives by the session, not by the call that offered it
		case towpath.Stop:
			if a := s.find(cmd.Attempt); a != nil {
				a.stop(stopped(cmd.Reason))
			}
		case towpath.Recall:
			if a := s.find(cmd.Attempt); a != nil {
				a.recall(cmd.Most)
			}
		}
	}
}

func (s *session) find(id towpath.AttemptID) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// offered begins an attempt, or says why it cannot.
func (s *session) offered(o towpath.Offer, bad error) {
	if bad != nil {
		s.refuse(o, "cannot read the offer: "+bad.Error())
		return
	}
	a, refusal := s.begin(o)
	if refusal != "" {
		s.refuse(o, refusal)
	}
	if a == nil {
		return
	}
	go func() {
		defer s.attempts.Done()
		done := a.run()
		s.finish(a)
		s.say(true, done)
		signal(s.idle)
	}()
}

func (s *session) refuse(o towpath.Offer, reason string) {
	s.log.Warn("offer refused", "attempt", string(o.Attempt), "reason", reason)
	s.say(true, towpath.Done{
		Attempt: o.Attempt, Outcome: towpath.OutcomeErrored, Reason: "agent " + s.cfg.Name + " " + reason,
	})
}

// begin enters an attempt, which then counts in s.attempts. A repeated offer gives neither an attempt nor a refusal.
func (s *session) begin(o towpath.Offer) (a *attempt, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen.add(o.Attempt) {
		return nil, ""
	}
	if s.draining {
		return nil, "is draining"
	}
	if o.Kind == towpath.AttemptRun && len(o.Units) == 0 {
		return nil, "was offered an attempt without atoms"
	}
	held, ok := s.slots.take(max(1, o.Job.Slots))
	if !ok {
		return nil, fmt.Sprintf("has not %d free slots", max(1, o.Job.Slots))
	}
	a = newAttempt(s, o, held)
	s.running[o.Attempt] = a
	s.attempts.Add(1)
	return a, ""
}

// finish takes an attempt out, before the server hears of its end and offers its slots again.
func (s *session) finish(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, a.offer.Attempt)
	s.slots.give(a.held)
}

// say puts an input into the outbox.
func (s *session) say(hurry bool, in towpath.Input) {
	ups, err := wire.FromInput(in)
	if err != nil {
		s.end(fmt.Errorf("say %T: %w", in, err))
		return
	}
	s.out.put(hurry, ups...)
}

// sendLoop owns the sending half of the stream. The outbox wakes it; it ends with the call, or when the stream breaks.
func (s *session) sendLoop(ctx context.Context, stream *connect.BidiStream[wire.Downs, wire.Ups]) {
	hello, err := wire.FromInput(towpath.Hello{Agent: s.cfg.Name, Slots: s.cfg.Slots, Labels: s.cfg.Labels, Class: s.cfg.Class})
	if err == nil {
		hello[0].GetHello().Version = s.cfg.Version
		err = stream.Send(&wire.Ups{Ups: hello})
	}
	for err == nil {
		ups := s.out.take()
		if len(ups) > 0 {
			err = stream.Send(&wire.Ups{Ups: ups})
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.out.wake:
		}
	}
	s.end(wrapHungUp(err))
}

// beatLoop says that the agent lives. It ends with the link.
func (s *session) beatLoop(ctx context.Context) {
	t := time.NewTicker(s.cfg.BeatEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.out.putBeat(time.Since(s.started))
		}
	}
}
