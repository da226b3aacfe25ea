package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/wire"
)

var (
	errGoodbye = errors.New("the agent said goodbye")
	errHungUp  = errors.New("the agent hung up")
)

// session is one agent's session. Four loops share it: receive, deliver, beats and send.
type session struct {
	id     towpath.SessionID
	cfg    Config
	log    *slog.Logger
	stream *connect.BidiStreamForClient[wire.Downs, wire.Ups]
	cancel context.CancelCauseFunc
	box    *mailbox
	in     *inbox
	beat   chan struct{} // holds one token while a beat is to be passed on
	inputs wire.Inputs
	last   uint64 // number of the last message received; the receive loop's own

	verdict chan error // holds what ended the session, where that is not how its connection broke
}

// Serve speaks with the agent at the other end of conn until the session ends, and closes conn. A session that ends at its
// agent's wish, or is declared lost, is no error. When ctx ends the connection is closed and the sink is not told, for
// the session may live on elsewhere.
func (h *Hub) Serve(ctx context.Context, conn net.Conn) error {
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client, hangUp, err := wire.Client(sctx, conn, h.cfg.Ping)
	if err != nil {
		return err
	}
	defer func() { _ = hangUp() }() // by then the session's end is settled
	// The end of its context alone does not break a stream that waits for something to send.
	defer context.AfterFunc(sctx, func() { _ = hangUp() })()
	s := &session{
		id: newID(), cfg: h.cfg, stream: client.Session(sctx), cancel: cancel,
		box: newMailbox(h.cfg.Mailbox), in: newInbox(h.cfg.Inbox), beat: make(chan struct{}, 1),
		verdict: make(chan error, 1),
	}
	s.inputs.Session = s.id
	s.log = h.cfg.Logger.With("session", string(s.id))

	hello, rest, err := s.hello(sctx)
	if err != nil {
		return errors.Join(err, s.leave(sctx, err))
	}
	s.log = s.log.With("agent", hello.Agent)
	h.enter(s)
	defer h.leave(s)
	if err := s.deliverInputs(sctx, []towpath.Input{hello}); err != nil {
		return errors.Join(err, s.leave(sctx, err))
	}
	s.log.Info("session opened", "slots", hello.Slots)
	err = s.live(sctx, rest)
	switch {
	case errors.Is(err, errGoodbye):
		s.log.Info("session closed")
		return nil
	case towpath.CodeOf(err) == towpath.CodeSessionLost:
		s.log.Warn("session lost", "err", err)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.log.Warn("session cut", "err", err)
	bye, stop := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.EndLimit)
	defer stop()
	reason := err.Error()
	if errors.Is(err, errHungUp) {
		reason = errHungUp.Error() // what the transport says of it is for the log
	}
	gone := s.deliverInputs(bye, []towpath.Input{towpath.Goodbye{Session: s.id, Reason: reason}})
	if towpath.CodeOf(gone) == towpath.CodeSessionLost {
		gone = nil // it had been declared lost meanwhile
	}
	return errors.Join(fmt.Errorf("session %s of agent %s: %w", s.id, hello.Agent, err), gone)
}

// hello waits for the agent's first message, and checks it.
func (s *session) hello(ctx context.Context) (towpath.Hello, []*wire.Up, error) {
	late := time.AfterFunc(s.cfg.HelloLimit, func() {
		s.cancel(fmt.Errorf("the agent said no hello within %s", s.cfg.HelloLimit))
	})
	defer late.Stop()
	if err := s.stream.Send(nil); err != nil { // only the headers
		return towpath.Hello{}, nil, s.ended(ctx, err)
	}
	first, err := s.stream.Receive()
	if err != nil {
		return towpath.Hello{}, nil, s.ended(ctx, err)
	}
	ups := first.GetUps()
	if len(ups) == 0 || ups[0].GetHello() == nil {
		return towpath.Hello{}, nil, towpath.Errorf(towpath.CodeConflict, "the agent's first message is no hello")
	}
	if err := wire.CheckProtocol(ups[0].GetHello()); err != nil {
		return towpath.Hello{}, nil, err
	}
	hello, ok := s.inputs.Take(ups[0]).(towpath.Hello)
	if !ok || hello.Slots < 1 {
		return towpath.Hello{}, nil, towpath.Errorf(towpath.CodeConflict, "agent %s has no slots", ups[0].GetHello().GetAgent())
	}
	return hello, ups[1:], nil
}

// live runs the loops until one of them ends, and says why.
func (s *session) live(ctx context.Context, rest []*wire.Up) error {
	if err := s.receive(rest); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	// When one loop has ended the stream must break, or the loops that wait in it would not notice.
	defer context.AfterFunc(gctx, func() { s.cancel(context.Cause(gctx)) })()
	g.Go(func() error { return s.receiveLoop(gctx) })
	g.Go(func() error { return s.deliverLoop(gctx) })
	g.Go(func() error { return s.beatLoop(gctx) })
	g.Go(func() error { return s.sendLoop(gctx) })
	err := g.Wait()
	select {
	case v := <-s.verdict:
		return v
	default:
		return err
	}
}

// end settles why the session ends; the first call counts.
func (s *session) end(why error) {
	select {
	case s.verdict <- why:
	default:
	}
}

// receiveLoop owns the receiving half of the stream and never waits for the sink, so that a slow store does not look
// like a silent agent. It ends with the stream.
func (s *session) receiveLoop(ctx context.Context) error {
	for {
		m, err := s.stream.Receive()
		if err != nil {
			return s.ended(ctx, err)
		}
		if err := s.receive(m.GetUps()); err != nil {
			return err
		}
	}
}

func (s *session) receive(ups []*wire.Up) error {
	kept, size := ups[:0], 0
	for _, u := range ups {
		if b := u.GetBeat(); b != nil {
			s.box.echo(b.GetStampNs())
			select {
			case s.beat <- struct{}{}:
			default:
			}
			continue
		}
		switch n := u.GetNumber(); {
		case n <= s.last: // repeated, and we have it
		case n == s.last+1:
			s.last = n
			kept, size = append(kept, u), size+proto.Size(u)
		default:
			return fmt.Errorf("the agent's message %d came after %d", n, s.last)
		}
	}
	if len(kept) > 0 && !s.in.put(kept, size) {
		return fmt.Errorf("the agent sent more than %d bytes that were not acknowledged", s.cfg.Inbox)
	}
	return nil
}

// sendLoop owns the sending half of the stream. The mailbox wakes it; it ends with the context, after a refusal, or when
// the agent does not take what it is sent.
func (s *session) sendLoop(ctx context.Context) error {
	var offers wire.Offers
	if err := s.write(ctx, &wire.Down{Body: &wire.Down_Welcome{Welcome: &wire.Welcome{Session: string(s.id)}}}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.box.wake:
		}
		o := s.box.take()
		if o.empty() {
			continue
		}
		var downs []*wire.Down
		if o.echo != nil {
			downs = append(downs, &wire.Down{Body: &wire.Down_Echo{Echo: o.echo}})
		}
		if o.ack != nil {
			downs = append(downs, &wire.Down{Body: &wire.Down_Ack{Ack: o.ack}})
		}
		for _, cmd := range o.commands {
			d, err := offers.FromCommand(cmd)
			if err != nil {
				return err
			}
			downs = append(downs, d)
		}
		if o.drain {
			downs = append(downs, &wire.Down{Body: &wire.Down_Drain{Drain: &wire.Drain{}}})
		}
		if o.refusal != nil {
			downs = append(downs, refusal(o.refusal))
		}
		if err := s.write(ctx, downs...); err != nil {
			return err
		}
		if o.refusal != nil {
			s.end(o.refusal)
			return s.hangUpLater(ctx, o.refusal)
		}
	}
}

// write sends downs within the write limit.
func (s *session) write(ctx context.Context, downs ...*wire.Down) error {
	late := time.AfterFunc(s.cfg.WriteLimit, func() {
		s.cancel(fmt.Errorf("the agent took nothing for %s", s.cfg.WriteLimit))
	})
	defer late.Stop()
	if err := s.stream.Send(&wire.Downs{Downs: downs}); err != nil {
		return s.ended(ctx, err)
	}
	return nil
}

// hangUpLater lets the agent hang up by itself, so that it has read why; after the limit we do. It returns why.
func (s *session) hangUpLater(ctx context.Context, why error) error {
	limit := time.NewTimer(s.cfg.EndLimit)
	defer limit.Stop()
	select {
	case <-ctx.Done():
	case <-limit.C:
	}
	return why
}

// leave tells the agent why its session cannot be opened.
func (s *session) leave(ctx context.Context, why error) error {
	var e *towpath.Error
	if ctx.Err() != nil || !errors.As(why, &e) {
		return nil
	}
	if err := s.write(ctx, refusal(e)); err != nil {
		return err
	}
	late := time.AfterFunc(s.cfg.EndLimit, func() { s.cancel(why) })
	defer late.Stop()
	for {
		if _, err := s.stream.Receive(); err != nil {
			return nil // it hung up, or the limit came: either way this was the end
		}
	}
}

func refusal(e *towpath.Error) *wire.Down {
	return &wire.Down{Body: &wire.Down_Refusal{Refusal: &wire.Refusal{Code: string(e.Code), Message: e.Message}}}
}

// ended says why the stream broke: the cause with which the session was cut, if it was, else what the stream says.
func (s *session) ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errHungUp
	}
	return fmt.Errorf("%w: %w", errHungUp, err)
}

// send puts cmd into the mailbox, and cuts the session if there is no room.
func (s *session) send(cmd towpath.Command) error {
	if s.box.command(cmd) {
		return nil
	}
	err := towpath.Errorf(towpath.CodeSessionLost, "the agent took none of %d commands", s.cfg.Mailbox)
	s.cancel(errors.New(err.Message))
	return err
}
