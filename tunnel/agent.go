package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Agent keeps connections to servers up, and serves what comes by them. Handler and URLs are needed; the zero value of
// all else is the default. It is not to be changed once Run is called.
type Agent struct {
	// URLs are where servers' handlers are: https://HOST[:PORT][/PATH]. With several, the connections are spread over
	// them, and each goes on to the next when one does not answer.
	URLs []string
	// Handler serves the servers' requests. It must return when a request's context ends.
	Handler http.Handler
	// Dialer has TLS and the credentials.
	Dialer Dialer
	// Connections is how many to keep up. Default 1.
	Connections int
	// Limits bound each connection.
	Limits Limits
	// Grace is how long calls that run may take to finish when the agent leaves a connection, be it that Run's context has
	// ended or that the server asked for it. Default 30 s.
	Grace time.Duration
	// MinBackoff and MaxBackoff bound the wait before the next attempt: a random part of the first after a connection
	// was lost, then of twice as much for each attempt that fails. Defaults 1 s and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// GiveUp decides which error of an attempt ends Run. Default: a [RefusedError] that is final.
	GiveUp func(error) bool
	// Logger hears of connections that come and go. Default: nobody does.
	Logger *slog.Logger
}

func (a *Agent) withDefaults() (*Agent, error) {
	if len(a.URLs) == 0 || a.Handler == nil {
		return nil, errors.New("a tunnel.Agent needs URLs and a Handler")
	}
	b := *a
	b.Limits = a.Limits.withDefaults()
	b.Connections = max(1, a.Connections)
	if b.Dialer.Timeout <= 0 {
		b.Dialer.Timeout = b.Limits.HandshakeTimeout
	}
	for d, or := range map[*time.Duration]time.Duration{
		&b.Grace: 30 * time.Second, &b.MinBackoff: time.Second, &b.MaxBackoff: 30 * time.Second,
	} {
		if *d <= 0 {
			*d = or
		}
	}
	b.MaxBackoff = max(b.MinBackoff, b.MaxBackoff)
	if b.GiveUp == nil {
		b.GiveUp = func(err error) bool {
			var r *RefusedError
			return errors.As(err, &r) && r.Final()
		}
	}
	if b.Logger == nil {
		b.Logger = slog.New(slog.DiscardHandler)
	}
	return &b, nil
}

// Run keeps the connections up until ctx ends, then lets calls finish, closes, and returns the context's cause; or until
// an error that GiveUp takes for final. It returns when all that it started has ended.
func (a *Agent) Run(ctx context.Context) error {
	b, err := a.withDefaults()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var places sync.WaitGroup
	for i := range b.Connections {
		places.Go(func() { cancel((&place{Agent: b, next: i}).run(ctx)) })
	}
	places.Wait()
	return context.Cause(ctx)
}

// place is one of an agent's connections through time.
type place struct {
	*Agent
	next  int // the URL for the next attempt, modulo their number
	conns sync.WaitGroup
}

// live is a connection that is up.
type live struct {
	*agentConn
	url   string
	since time.Time
	err   error // why it ended; valid once link.gone and handlers have
	done  chan struct{}
}

// run keeps one connection up. It owns the current one, and the one before until that has been left. A connection that
// comes, ends or is to move wakes it, and its timers; it ends with ctx or an error to give up for.
func (p *place) run(ctx context.Context) error {
	defer p.conns.Wait()
	var current *live // nil: none
	backoff := p.MinBackoff
	for {
		next, err := p.connect(ctx)
		switch {
		case err == nil:
			if current != nil {
				current.retire()
			}
			current = next
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case p.GiveUp(err):
			return err
		default:
			delay := rand.N(backoff) //nolint:gosec // spread, not secrecy
			backoff = min(2*backoff, p.MaxBackoff)
			p.Logger.WarnContext(ctx, "server not reached", "err", err, "retry_in", delay)
			if !wait(ctx, delay) {
				return context.Cause(ctx)
			}
			continue
		}

		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-current.done:
			p.Logger.WarnContext(ctx, "tunnel lost", "url", current.url, "err", current.err)
			if time.Since(current.since) >= p.MaxBackoff {
				backoff = p.MinBackoff
			}
			current = nil
			delay := rand.N(backoff) //nolint:gosec // spread, not secrecy
			backoff = min(2*backoff, p.MaxBackoff)
			if !wait(ctx, delay) {
				return context.Cause(ctx)
			}
		case within := <-current.move:
			p.Logger.InfoContext(ctx, "server asked to dial anew", "url", current.url, "within", within)
			if !wait(ctx, rand.N(within+1)) { //nolint:gosec // spread, not secrecy
				return context.Cause(ctx)
			}
			backoff = p.MinBackoff
		}
	}
}

// connect makes one connection, and returns when the server has greeted.
func (p *place) connect(ctx context.Context) (*live, error) {
	url := p.URLs[p.next%len(p.URLs)]
	p.next++ // those of one agent begin at different ones, and none insists on one that does not answer
	conn, err := p.Dialer.Dial(ctx, url)
	if err != nil {
		return nil, err
	}
	l := &live{
		agentConn: newAgentConn(conn, p.Handler, p.Limits, p.Grace, p.Logger),
		url:       url, since: time.Now(), done: make(chan struct{}),
	}
	p.conns.Go(func() {
		defer close(l.done)
		l.err = l.run(ctx)
	})
	greeting := time.NewTimer(p.Limits.HandshakeTimeout)
	defer greeting.Stop()
	select {
	case <-l.up:
		p.Logger.InfoContext(ctx, "tunnel up", "url", url)
		return l, nil
	case <-greeting.C:
		err = fmt.Errorf("%s upgraded the connection, but nothing came through it within %v: a proxy on the way must pass on "+
			"what follows `Upgrade: %s`", url, p.Limits.HandshakeTimeout, Protocol)
		l.link.end(err)
		<-l.done
		return nil, err
	case <-l.done:
		if said, ok := errors.AsType[*RefusedError](l.err); ok {
			return nil, said
		}
		return nil, fmt.Errorf("%s upgraded the connection and ended it before its first request: if a proxy is on the way, "+
			"it must pass on what follows `Upgrade: %s`: %w", url, Protocol, l.err)
	}
}

// wait sleeps for d, or less if ctx ends first; it reports whether d has passed.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
