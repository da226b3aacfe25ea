package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// Windows of HTTP/2, the same on both sides: one long stream a session, and room for a few beside it.
const (
	streamWindow = 256 << 10
	connWindow   = 2 << 20
)

func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connWindow,
		WriteByteTimeout:              30 * time.Second, // a peer that stops reading is cut
	}
}

func unencrypted() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Client makes the Towpath server's side of conn: a client of the agent that is the HTTP/2 server there. Ping, if not 0,
// is how often a silent peer is asked whether it lives. The caller closes conn by the returned function.
func Client(ctx context.Context, conn net.Conn, ping time.Duration) (AgentServiceClient, func() error, error) {
	config := http2Config()
	config.SendPingTimeout, config.PingTimeout = ping, ping
	t := &http.Transport{
		Protocols:          unencrypted(),
		HTTP2:              config,
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	cc, err := t.NewClientConn(ctx, "http", "agent:80")
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("speak HTTP/2 to the agent: %w", err), conn.Close())
	}
	httpClient := &http.Client{Transport: cc}
	client := NewAgentServiceClient(httpClient, "http://agent",
		connect.WithReadMaxBytes(MaxMessage), connect.WithSendMaxBytes(MaxMessage),
		connect.WithAcceptCompression("gzip", nil, nil)) // small messages: it costs more than it saves
	return client, func() error { return errors.Join(conn.Close(), cc.Close()) }, nil
}

// Serve makes the agent's side of conn: it serves h there until the connection has ended or ctx has, and returns when all
// that it started is gone. Handlers see a context that ends with ctx.
func Serve(ctx context.Context, conn net.Conn, h AgentServiceHandler) error {
	path, handler := NewAgentServiceHandler(h, connect.WithReadMaxBytes(MaxMessage), connect.WithSendMaxBytes(MaxMessage))
	mux := http.NewServeMux()
	mux.Handle(path, handler)

	var handlers sync.WaitGroup
	closed := make(chan struct{})
	var once sync.Once
	srv := &http.Server{
		Protocols:         unencrypted(),
		HTTP2:             http2Config(),
		ReadHeaderTimeout: 30 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				once.Do(func() { close(closed) })
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			mux.ServeHTTP(w, r)
		}),
	}
	l := &oneListener{conn: make(chan net.Conn, 1), closed: closed, done: make(chan struct{}), addr: conn.LocalAddr()}
	l.conn <- conn
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err := srv.Serve(l)
	_ = srv.Close()
	select {
	case c := <-l.conn: // closed before it was accepted
		_ = c.Close()
		once.Do(func() { close(closed) })
	default:
	}
	<-closed // closing the connection is what ends its state, so this wait is short
	handlers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the connection: %w", err)
}

// oneListener is a listener that accepts one connection, and ends when that has.
type oneListener struct {
	conn   chan net.Conn
	closed <-chan struct{} // the connection
	done   chan struct{}   // the listener
	once   sync.Once
	addr   net.Addr
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	default:
	}
	select {
	case <-l.closed:
	case <-l.done:
	}
	return nil, net.ErrClosed
}

// Close ends Accept.
func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is the connection's own address.
func (l *oneListener) Addr() net.Addr { return l.addr }
