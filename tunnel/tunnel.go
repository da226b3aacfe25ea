package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// Tunnel is the server's end of one connection that an agent has made: the HTTP/2 client of it. All its methods may be
// called by any goroutine at any time.
type Tunnel struct {
	id     string
	link   *link
	client clientConn
	limits Limits
	since  time.Time

	inFlight atomic.Int64
	moving   atomic.Bool // asked to leave: used only where there is no other
}

// clientConn is what a Tunnel needs of an *http.ClientConn.
type clientConn interface {
	RoundTrip(req *http.Request) (*http.Response, error)
	Err() error
	Close() error
}

// New makes the server's end of a connection on whose other end [Serve] or an [Agent] runs, and returns when that has
// answered. It closes conn if it fails. [Handler] is the usual caller.
func New(ctx context.Context, id string, conn net.Conn, limits Limits) (*Tunnel, error) {
	limits = limits.withDefaults()
	l := newLink(conn, limits)
	transport := &http.Transport{
		Protocols:          unencryptedHTTP2(), // TLS is below
		HTTP2:              limits.http2(),
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return l, nil },
	}
	ctx, cancel := context.WithTimeout(ctx, limits.HandshakeTimeout)
	defer cancel()
	client, err := transport.NewClientConn(ctx, "http", host+":80")
	if err != nil {
		l.end(err)
		return nil, fmt.Errorf("speak HTTP/2 to agent %q: %w", id, err)
	}
	t := &Tunnel{id: id, link: l, client: client, limits: limits, since: time.Now()}
	if err := t.control(ctx, helloPath, nil); err != nil {
		t.Close(err)
		return nil, fmt.Errorf("greet agent %q: %w", id, err)
	}
	return t, nil
}

// ID is the agent's name.
func (t *Tunnel) ID() string { return t.id }

// Done is closed when the connection has ended.
func (t *Tunnel) Done() <-chan struct{} { return t.link.gone }

// Err says why the connection has ended; it is nil before.
func (t *Tunnel) Err() error { return t.link.ended() }

// Leaving is closed when the agent has announced that it takes no more requests on this connection.
func (t *Tunnel) Leaving() <-chan struct{} { return t.link.goAway }

// Close ends the connection at once, and with it all that runs on it; reason is what they fail with. To let them finish
// use Move, to tell the agent use Dismiss.
func (t *Tunnel) Close(reason error) {
	if reason == nil {
		reason = net.ErrClosed
	}
	if t.link.noteEnd(reason) {
		_ = t.client.Close() // the streams first, so that nobody waits for the network
		_ = t.link.shut()
	}
}

// Dismiss tells the agent why, and closes. An agent that does not listen is closed after two seconds.
func (t *Tunnel) Dismiss(ctx context.Context, why *RefusedError) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = t.control(ctx, closePath, url.Values{codeParam: {string(why.Code)}, reasonParam: {why.Message}})
	t.Close(why)
}

// Move asks the agent to dial anew, at a random moment within the given time, and then to leave this connection, on
// which what runs may finish. It returns when the agent has heard, not when it has moved: that is [Tunnel.Done].
func (t *Tunnel) Move(ctx context.Context, within time.Duration) error {
	t.moving.Store(true)
	ctx, cancel := context.WithTimeout(ctx, t.limits.HandshakeTimeout)
	defer cancel()
	return t.control(ctx, movePath, url.Values{withinParam: {within.String()}})
}

func (t *Tunnel) control(ctx context.Context, path string, query url.Values) error {
	u := url.URL{Scheme: "http", Host: host, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, controlMethod, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := t.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the agent answered %s to %s", resp.Status, path)
	}
	return nil
}

// RoundTrip sends a request to the agent's handler. The URL's host is what the handler sees as the request's; only its
// scheme and host are asked for, nothing is resolved. A request that the agent did not take because it was leaving fails
// with [ErrNotTaken], one whose connection ended with a [LostError], one that the agent's handler does not read with
// [ErrStalled].
func (t *Tunnel) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == controlMethod {
		closeBody(req)
		return nil, fmt.Errorf("method %s is the tunnel's own", controlMethod)
	}
	return t.send(req)
}

func (t *Tunnel) send(req *http.Request) (*http.Response, error) {
	if t.Err() == nil && isClosed(t.Leaving()) {
		closeBody(req)
		return nil, fmt.Errorf("%w: agent %q", ErrNotTaken, t.id)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	sent := req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		sent.Body = watchBody(req.Body, t.limits.StallTimeout, cancel)
	}
	t.inFlight.Add(1)
	resp, err := t.client.RoundTrip(sent)
	if err != nil {
		t.inFlight.Add(-1)
		err = t.explain(ctx, err, false)
		cancel(err)
		return nil, err
	}
	resp.Request = req
	resp.Body = &responseBody{ReadCloser: resp.Body, tunnel: t, ctx: ctx, cancel: cancel}
	return resp, nil
}

// explain makes of net/http's error what the caller can act on.
func (t *Tunnel) explain(ctx context.Context, err error, begun bool) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, ErrStalled) {
			return fmt.Errorf("agent %q: %w for %v", t.id, cause, t.limits.StallTimeout)
		}
		return err // the caller's own context
	}
	if t.client.Err() != nil {
		// HTTP/2 fails its streams just before it closes the connection, by which we learn the reason.
		late := time.NewTimer(time.Second)
		defer late.Stop()
		select {
		case <-t.Done():
		case <-late.C:
		}
	}
	switch cause := t.Err(); {
	case cause != nil && isClosed(t.Leaving()) && !begun && notTaken(err):
		return fmt.Errorf("%w: agent %q", ErrNotTaken, t.id)
	case cause != nil:
		return &LostError{ID: t.id, Cause: cause}
	case !begun && notTaken(err):
		return fmt.Errorf("%w: agent %q", ErrNotTaken, t.id)
	default:
		return fmt.Errorf("agent %q: %w", t.id, err)
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// responseBody holds the stream's place among those in flight, and explains what breaks it.
type responseBody struct {
	io.ReadCloser
	tunnel *Tunnel
	ctx    context.Context //nolint:containedctx // the request's, whose cause says why a read failed
	cancel context.CancelCauseFunc
	done   atomic.Bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.release()
	default:
		err = b.tunnel.explain(b.ctx, err, true)
		b.release()
	}
	return n, err
}

func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

func (b *responseBody) release() {
	if b.done.CompareAndSwap(false, true) {
		b.tunnel.inFlight.Add(-1)
		b.cancel(context.Canceled)
	}
}
