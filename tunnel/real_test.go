package tunnel_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/towpath/towpath/tunnel"
)

// real is a server on a socket, with TLS.
type real struct {
	t        *testing.T
	registry *tunnel.Registry
	handler  *tunnel.Handler
	srv      *httptest.Server
}

func newReal(t *testing.T) *real {
	t.Helper()
	r := &real{t: t, registry: tunnel.NewRegistry()}
	r.handler = &tunnel.Handler{
		Registry: r.registry,
		Authenticate: func(r *http.Request) (string, error) {
			if id := r.Header.Get("Agent"); id != "" {
				return id, nil
			}
			return "", &tunnel.RefusedError{Code: tunnel.CodeUnauthenticated, Message: "there is no token; make one on the server"}
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.registry.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/tunnel", r.handler)
	r.srv = httptest.NewUnstartedServer(mux)
	r.srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.srv.StartTLS()
	t.Cleanup(func() {
		stop()
		<-ended
		r.srv.Close()
	})
	return r
}

func (r *real) url() string { return r.srv.URL + "/tunnel" }

func (r *real) fingerprint() string {
	sum := sha256.Sum256(r.srv.Certificate().Raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (r *real) roots() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(r.srv.Certificate())
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
}

func (r *real) dialer(id string) tunnel.Dialer {
	return tunnel.Dialer{
		TLS:       r.roots(),
		Authorize: func(_ context.Context, h http.Header) error { h.Set("Agent", id); return nil },
	}
}

func (r *real) agent(id string, h http.Handler, change func(*tunnel.Agent)) (stop func()) {
	r.t.Helper()
	a := &tunnel.Agent{
		URLs: []string{r.url()}, Handler: h, Dialer: r.dialer(id), Grace: time.Second,
		MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second,
	}
	if change != nil {
		change(a)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	r.t.Cleanup(stop)
	return stop
}

func (r *real) find(id string) *tunnel.Tunnel {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	tun, err := r.registry.Find(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return tun
}

// listen gives a listener on a socket and serves each connection.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }()
				serve(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}
