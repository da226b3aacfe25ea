package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath/tunnel"
)

// world is a server with a registry, and agents that reach it in memory: all of it in virtual time.
type world struct {
	t        *testing.T
	registry *tunnel.Registry
	handler  *tunnel.Handler
	listener *memListener
	stop     context.CancelCauseFunc // of the registry
	all      sync.WaitGroup
}

var errTestOver = errors.New("the test is over")

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, registry: tunnel.NewRegistry(), listener: newMemListener()}
	w.handler = &tunnel.Handler{
		Registry:     w.registry,
		Authenticate: func(r *http.Request) (string, error) { return r.Header.Get("Agent"), nil },
	}
	ctx, stop := context.WithCancelCause(t.Context())
	w.stop = stop
	srv := &http.Server{Handler: w.handler}
	w.all.Go(func() { _ = w.registry.Run(ctx) })
	w.all.Go(func() { _ = srv.Serve(w.listener) })
	t.Cleanup(func() {
		stop(errTestOver)
		_ = srv.Close()
		w.all.Wait()
		synctest.Wait()
	})
	return w
}

// agent is one with defaults but for what change does.
func (w *world) agent(id string, h http.Handler, change func(*tunnel.Agent)) (stop func() error) {
	a := &tunnel.Agent{
		URLs: []string{"http://server.test/tunnel"}, Handler: h,
		Dialer: tunnel.Dialer{
			DialContext: w.listener.dial,
			Authorize:   func(_ context.Context, h http.Header) error { h.Set("Agent", id); return nil },
		},
	}
	if change != nil {
		change(a)
	}
	ctx, cancel := context.WithCancelCause(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel(errTestOver)
			err = <-ended
		})
		return err
	}
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

func (w *world) find(id string) *tunnel.Tunnel {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	tun, err := w.registry.Find(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return tun
}

func get(ctx context.Context, rt http.RoundTripper, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), errors.Join(err, resp.Body.Close())
}

func echoPath(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }

// memListener listens for connections made by its dial.
type memListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	made []*memConn // the dialler's ends
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memListener) Addr() net.Addr { return memAddr{} }

func (l *memListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	c := &memConn{Conn: here, frozen: make(chan struct{}), closed: make(chan struct{})}
	select {
	case l.conns <- there:
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = append(l.made, c)
	return c, nil
}

// last is the connection that was made last.
func (l *memListener) last() *memConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made[len(l.made)-1]
}

// memConn can be frozen: nothing comes out of it any more in either direction. What is sent to it is taken all the same, as
// a kernel would for a process that is stopped.
type memConn struct {
	net.Conn
	frozen, closed chan struct{}
	once           sync.Once
}

func (c *memConn) freeze() { close(c.frozen) }

func (c *memConn) isFrozen() bool {
	select {
	case <-c.frozen:
		return true
	default:
		return false
	}
}

func (c *memConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.isFrozen() {
			return n, err
		}
	}
}

func (c *memConn) Write(p []byte) (int, error) {
	if c.isFrozen() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *memConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	if c.isFrozen() {
		return nil // nor does the other end hear of this
	}
	return c.Conn.Close()
}

type memAddr struct{}

func (memAddr) Network() string { return "memory" }
func (memAddr) String() string  { return "memory" }
