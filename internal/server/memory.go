package server

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// memory is a listener whose connections never leave the process.
type memory struct {
	conns chan net.Conn // unbuffered: a dialer hands its connection to Accept
	done  chan struct{}
	once  sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept waits for the next dialer. It ends with Close.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and later dials.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

// Addr names the listener.
func (m *memory) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// transport sends requests to whoever accepts on m.
func (m *memory) transport() *http.Transport {
	return &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 4,
	}
}
