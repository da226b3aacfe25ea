package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// agentConn is the agent's end of one connection: the HTTP/2 server of it.
type agentConn struct {
	link   *link
	limits Limits
	grace  time.Duration
	srv    *http.Server

	up     chan struct{} // closed when the server has said hello
	upOnce sync.Once
	move   chan time.Duration           // the server's wish to be left, within that time; room for one
	said   atomic.Pointer[RefusedError] // why the server ends this connection, if it said so
	leave  chan struct{}                // closed by retire
	once   sync.Once                    // of leave

	handlers *calls
}

// Serve is the agent's end of a connection that something else than [Dialer] has made, in memory for example: it serves
// h there until the connection ends, and says why it did. If ctx ends it takes no more requests, lets those that run
// finish for at most grace, and closes. It returns when each call of h has.
func Serve(ctx context.Context, conn net.Conn, h http.Handler, limits Limits, grace time.Duration) error {
	return newAgentConn(conn, h, limits, grace, slog.New(slog.DiscardHandler)).run(ctx)
}

func newAgentConn(conn net.Conn, h http.Handler, limits Limits, grace time.Duration, log *slog.Logger) *agentConn {
	limits = limits.withDefaults()
	c := &agentConn{
		link: newLink(conn, limits), limits: limits, grace: grace,
		up: make(chan struct{}), move: make(chan time.Duration, 1), leave: make(chan struct{}),
		handlers: newCalls(),
	}
	c.link.frames.seen = true // what comes from a client begins with no frame, and no client's GOAWAY means anything here
	c.srv = &http.Server{
		Protocols:         unencryptedHTTP2(), // TLS is below, and none of its business
		HTTP2:             limits.http2(),
		ReadHeaderTimeout: limits.HandshakeTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Handler:           c.control(h),
	}
	return c
}

// run serves until the connection has ended, and gives the reason.
//
// It owns the connection. The server's GOAWAY, ctx, retire and the connection's own end wake it; only the last ends it.
func (c *agentConn) run(ctx context.Context) error {
	c.srv.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	l := &oneListener{conn: make(chan net.Conn, 1), gone: c.link.gone, closed: make(chan struct{}), addr: c.link.LocalAddr()}
	l.conn <- c.link

	var leaver sync.WaitGroup
	leaver.Go(func() {
		select {
		case <-c.link.gone:
			return
		case <-ctx.Done():
		case <-c.leave:
		}
		c.shutdown(context.WithoutCancel(ctx))
	})
	_ = c.srv.Serve(l) // ends when the listener does, and never for a reason of its own
	select {
	case <-l.conn: // told to leave before it was accepted
		c.link.end(http.ErrServerClosed)
	default:
	}
	<-c.link.gone // bounded: by pings if by nothing else
	c.handlers.end()
	leaver.Wait()
	_ = c.srv.Close()
	if said := c.said.Load(); said != nil {
		return said
	}
	if context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return c.link.ended()
}

// retire asks run to leave: no new requests, and an end when those that run have finished.
func (c *agentConn) retire() { c.once.Do(func() { close(c.leave) }) }

func (c *agentConn) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.grace)
	defer cancel()
	err := c.srv.Shutdown(ctx) // sends the GOAWAY
	if err != nil {
		c.link.end(fmt.Errorf("calls still ran after %v: %w", c.grace, err))
	}
	c.link.end(http.ErrServerClosed)
}

// serveWatched serves one request with the limits of its stream.
func (c *agentConn) serveWatched(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !c.handlers.enter() {
		panic(http.ErrAbortHandler) // the connection has ended: nobody would get an answer
	}
	defer c.handlers.leave()
	ww := &watchedWriter{ResponseWriter: w, watch: newWatch(c.limits.StallTimeout, func() {
		// A write deadline in the past resets the stream, and no other.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	})}
	defer ww.watch.stop()
	next.ServeHTTP(ww, r)
}

// watchedWriter writes piecewise, and gives up a stream on which a piece makes no way.
type watchedWriter struct {
	http.ResponseWriter
	watch *watch
}

// Unwrap is for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchedWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return w.ResponseWriter.Write(p)
	}
	var written int
	for len(p) > 0 {
		piece := p[:min(len(p), pieceSize)]
		w.watch.start()
		n, err := w.ResponseWriter.Write(piece)
		fired := w.watch.stop()
		written += n
		if err != nil {
			return written, stalled(err, fired)
		}
		p = p[n:]
	}
	return written, nil
}

// FlushError is what http.ResponseController calls.
func (w *watchedWriter) FlushError() error {
	w.watch.start()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if fired := w.watch.stop(); err != nil {
		return stalled(err, fired)
	}
	return nil
}

// Flush implements http.Flusher.
func (w *watchedWriter) Flush() { _ = w.FlushError() }

func stalled(err error, fired bool) error {
	if fired {
		return errors.Join(ErrStalled, err)
	}
	return err
}

// oneListener is a listener that accepts one connection, and ends when that has.
type oneListener struct {
	conn   chan net.Conn // room for the one
	gone   <-chan struct{}
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conn:
		return c, nil
	default:
	}
	select {
	case <-l.gone:
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

// Close ends Accept.
func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is the connection's own address.
func (l *oneListener) Addr() net.Addr { return l.addr }
