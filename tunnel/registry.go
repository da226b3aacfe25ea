package tunnel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Registry knows which agents are connected. One goroutine, Run's, owns what it knows; everybody else sends it a message
// and waits for the answer in a channel with room for it, so that the owner never waits for anybody. Its methods may be
// called by any goroutine at any time; before Run they wait for it.
type Registry struct {
	// MaxWaiting is how many callers may wait for one agent that is not connected. Default 4096.
	MaxWaiting int
	// MaxTunnels is how many connections one agent may have. Default 16.
	MaxTunnels int

	inbox    chan message
	stopping chan struct{} // closed when Run's context has ended: no message is sent any more but a leaver's
	stopped  chan struct{} // closed when nobody is left
	draining atomic.Bool
}

// NewRegistry makes a registry for Run.
func NewRegistry() *Registry {
	return &Registry{inbox: make(chan message), stopping: make(chan struct{}), stopped: make(chan struct{})}
}

// message is what the owner is told. Answers go to channels of one, made by the sender, one answer each.
type message interface{ tell(m *members) }

type (
	join struct {
		t      *Tunnel
		answer chan error
	}
	leave struct{ t *Tunnel }
	seek  struct {
		id     string
		answer chan found
	}
	abort struct{ seek seek }
	list  struct{ answer chan []*Tunnel }
	found struct {
		t   *Tunnel
		err error
	}
)

func (j join) tell(m *members)  { j.answer <- m.join(j.t) }
func (l leave) tell(m *members) { m.leave(l.t) }
func (s seek) tell(m *members)  { m.seek(s) }
func (a abort) tell(m *members) { m.abort(a.seek) }
func (l list) tell(m *members)  { l.answer <- m.list() }

// Run owns the registry until ctx ends. It then answers all who wait with ErrClosed, closes all tunnels, and returns the
// context's cause once they are gone.
//
// A message or ctx wakes it; after ctx, it ends with the last tunnel's leave, which follows from the tunnel's closing.
func (r *Registry) Run(ctx context.Context) error {
	m := &members{maxWaiting: r.MaxWaiting, maxTunnels: r.MaxTunnels, agents: make(map[string]*agent)}
	if m.maxWaiting <= 0 {
		m.maxWaiting = 4096
	}
	if m.maxTunnels <= 0 {
		m.maxTunnels = 16
	}
	for ctx.Err() == nil {
		select {
		case msg := <-r.inbox:
			msg.tell(m)
		case <-ctx.Done():
		}
	}
	close(r.stopping)
	m.stop()
	var closers sync.WaitGroup
	for _, t := range m.list() {
		closers.Go(func() { t.Close(ErrClosed) })
	}
	for m.tunnels > 0 {
		(<-r.inbox).tell(m)
	}
	closers.Wait()
	close(r.stopped)
	return context.Cause(ctx)
}

// Serve keeps t in the registry until its connection ends, which it gives the reason for, or until ctx does, which closes
// it. An agent that announces to leave is not found any more, and what runs on its tunnel finishes.
func (r *Registry) Serve(ctx context.Context, t *Tunnel) error {
	answer := make(chan error, 1)
	var err error
	select {
	case r.inbox <- join{t, answer}:
		err = <-answer // certain: the owner waits for nobody
	case <-r.stopping:
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		if refusal, ok := errors.AsType[*RefusedError](err); ok {
			t.Dismiss(ctx, refusal)
		}
		t.Close(err)
		return err
	}
	select {
	case <-t.Done():
	case <-ctx.Done():
		t.Close(context.Cause(ctx))
	}
	select {
	case r.inbox <- leave{t}:
	case <-r.stopped:
	}
	return t.Err()
}

// Find gives a tunnel of the agent, the one with the fewest requests in flight if it has several. While it has none, Find
// waits until it connects or ctx ends; of those who wait for one agent the first is served first. It fails with the
// context's cause, [ErrClosed] or [ErrBusy].
//
// A tunnel is shared and needs not be given back. It may end at any time, its requests then fail as [Tunnel.RoundTrip] says.
func (r *Registry) Find(ctx context.Context, id string) (*Tunnel, error) {
	s := seek{id, make(chan found, 1)}
	select {
	case r.inbox <- s:
	case <-r.stopping:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, notConnected(ctx, id)
	}
	select {
	case f := <-s.answer:
		return f.t, f.err
	case <-ctx.Done():
	}
	select {
	case r.inbox <- abort{s}:
	case <-r.stopping: // it forgets all who wait
	}
	return nil, notConnected(ctx, id)
}

func notConnected(ctx context.Context, id string) error {
	return fmt.Errorf("wait for agent %q to connect: %w", id, context.Cause(ctx))
}

// Tunnels lists all tunnels, those that their agents are leaving too, in no order. That it answers at all, within a short context, is a probe of
// the registry's health.
func (r *Registry) Tunnels(ctx context.Context) ([]*Tunnel, error) {
	l := list{make(chan []*Tunnel, 1)}
	select {
	case r.inbox <- l:
		return <-l.answer, nil // certain: the owner waits for nobody
	case <-r.stopping:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Dismiss tells an agent why it is not wanted any more, and closes its tunnels; it returns how many. An agent that may not
// come back must be refused by [Handler.Authenticate] from before the call.
func (r *Registry) Dismiss(ctx context.Context, id string, why *RefusedError) (int, error) {
	all, err := r.Tunnels(ctx)
	if err != nil {
		return 0, err
	}
	var n int
	var each sync.WaitGroup
	for _, t := range all {
		if t.ID() == id {
			n++
			each.Go(func() { t.Dismiss(ctx, why) })
		}
	}
	each.Wait()
	return n, nil
}

// Drain refuses new agents, asks those that are here to dial anew, each at a random moment within the given time, and
// returns when all have left or ctx has ended. Until an agent has left, it is found as before. A registry that drains does
// so for good.
func (r *Registry) Drain(ctx context.Context, within time.Duration) error {
	r.draining.Store(true)
	all, err := r.Tunnels(ctx)
	if err != nil {
		return err
	}
	var each sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(len(all)))
	for _, t := range all {
		each.Go(func() {
			if err := t.Move(ctx, within); err != nil {
				t.Close(err) // one that cannot be told will notice
			}
			select {
			case <-t.Done():
				left.Add(-1)
			case <-ctx.Done():
			}
		})
	}
	each.Wait()
	if n := left.Load(); n > 0 {
		return fmt.Errorf("drain: %d of %d tunnels are still up: %w", n, len(all), context.Cause(ctx))
	}
	return nil
}

// refusing is why no agent is let in now, or nil.
func (r *Registry) refusing() *RefusedError {
	if r.draining.Load() {
		return &RefusedError{Code: CodeDraining, Message: "this server is about to stop; another one, or this one a little later, will take the agent"}
	}
	if isClosed(r.stopping) {
		return &RefusedError{Code: CodeDraining, Message: "this server has stopped"}
	}
	return nil
}
