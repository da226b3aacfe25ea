package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/towpath/towpath/tunnel"
)

// accept serves each CONNECT by f.
func accept(t *testing.T, f func(s *tunnel.Stream)) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := tunnel.Accept(w, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f(s)
		_ = s.Close()
	})
}

func TestStreamCarriesBytesBothWaysAndEnds(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	r.agent("a", accept(t, func(s *tunnel.Stream) {
		all, err := io.ReadAll(s) // until the other end's CloseWrite
		if err != nil {
			t.Errorf("agent reads: %v", err)
		}
		_, _ = s.Write([]byte(s.LocalAddr().String() + " "))
		_, _ = s.Write(bytes.ToUpper(all))
	}), nil)
	s, err := r.find("a").Dial(t.Context(), "db.inner:5432")
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Repeat("abc", 1<<20)
	if _, err := io.WriteString(s, sent); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if want := "db.inner:5432 " + strings.ToUpper(sent); string(got) != want || err != nil {
		t.Errorf("got %d bytes of %d, %v", len(got), len(want), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What was written before Close arrives, and then the end, not an error.
func TestCloseAfterWriteLosesNothing(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	type result struct {
		n   int
		err error
	}
	results := make(chan result, 1)
	r.agent("a", accept(t, func(s *tunnel.Stream) {
		all, err := io.ReadAll(s)
		results <- result{len(all), err}
	}), nil)
	for range 50 {
		s, err := r.find("a").Dial(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if got := <-results; got.n != 100_000 || got.err != nil {
			t.Fatalf("got %d bytes, %v", got.n, got.err)
		}
	}
}

func TestStreamIsRefusedWithTheHandlersReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Host+" is not on the list", http.StatusForbidden)
		}), nil)
		_, err := w.find("a").Dial(t.Context(), "evil:22")
		var refused *tunnel.ConnectError
		if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || !strings.Contains(err.Error(), "evil:22 is not on the list") {
			t.Errorf("got %v", err)
		}
	})
}

func TestStreamOfALostAgentSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", accept(t, func(s *tunnel.Stream) { _, _ = io.Copy(io.Discard, s) }), nil)
		tun := w.find("a")
		s, err := tun.Dial(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		tun.Close(errors.New("a cable was pulled"))
		var lost *tunnel.LostError
		if _, err := s.Read(make([]byte, 1)); !errors.As(err, &lost) || !strings.Contains(err.Error(), "cable") {
			t.Errorf("read: %v", err)
		}
		for err = nil; err == nil; {
			_, err = s.Write(make([]byte, 1<<20))
		}
		if !errors.As(err, &lost) {
			t.Errorf("write: %v", err)
		}
		_ = s.Close()
	})
}

func TestStreamDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.find("a").Dial(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// The contract of net.Conn, as far as a stream keeps it, by the suite that net's own connections are held to.
func TestStreamIsANetConn(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (dialled, accepted net.Conn, stop func(), err error) {
		here, there := net.Pipe()
		conns := make(chan net.Conn, 1)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		all.Go(func() {
			_ = tunnel.Serve(ctx, there, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s, err := tunnel.Accept(w, r)
				if err != nil {
					t.Error(err)
					return
				}
				c := &handledConn{Stream: s, release: make(chan struct{})}
				conns <- c
				<-c.release
			}), tunnel.Limits{}, 0)
		})
		tun, err := tunnel.New(ctx, "a", here, tunnel.Limits{WriteTimeout: 500 * time.Millisecond})
		if err != nil {
			cancel()
			return nil, nil, nil, err
		}
		s, err := tun.Dial(ctx, "x")
		if err != nil {
			cancel()
			return nil, nil, nil, err
		}
		other := <-conns
		return s, other, func() {
			_ = s.Close()
			_ = other.Close()
			tun.Close(nil)
			cancel()
			all.Wait()
		}, nil
	})
}

// handledConn lets its handler return when it is closed.
type handledConn struct {
	*tunnel.Stream
	release chan struct{}
	once    sync.Once
}

func (c *handledConn) Close() error {
	err := c.Stream.Close()
	c.once.Do(func() { close(c.release) })
	return err
}

func TestDeadlinePassesAndTheStreamLivesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", accept(t, func(s *tunnel.Stream) { _, _ = io.Copy(s, s) }), nil)
		s, err := w.find("a").Dial(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		_ = s.SetReadDeadline(time.Time{})
		_, _ = s.Write([]byte("still here"))
		got := make([]byte, 10)
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "still here" {
			t.Errorf("got %q, %v", got, err)
		}
		_ = s.Close()
	})
}
