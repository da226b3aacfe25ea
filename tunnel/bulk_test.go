package tunnel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath/tunnel"
)

// zeros is a body of n bytes that says how much of it was read.
type zeros struct {
	left int64
	read *atomic.Int64
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	z.read.Add(int64(n))
	return n, nil
}

func (z *zeros) Close() error { return nil }

func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools held before the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// T5, on sockets: 64 streams whose reader reads nothing, in each direction, of one agent, and what they mean to others.
//
//nolint:paralleltest // it measures memory
func TestStalledStreamsHarmNobody(t *testing.T) {
	for _, direction := range []string{"down", "up"} {
		t.Run(direction, func(t *testing.T) {
			r := newReal(t)
			release := make(chan struct{})
			limits := tunnel.Limits{StallTimeout: 4 * time.Second}
			r.handler.Limits = limits
			cut := make(chan error, 64)
			change := func(a *tunnel.Agent) { a.Limits = limits }
			r.agent("other", http.HandlerFunc(echoPath), change)
			r.agent("a", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				switch req.URL.Path {
				case "/down":
					_, err := io.Copy(w, &zeros{left: 1 << 30, read: new(atomic.Int64)})
					cut <- err
				case "/up":
					select {
					case <-release:
					case <-req.Context().Done():
					}
				default:
					echoPath(w, req)
				}
			}), change)
			tun, other := r.find("a"), r.find("other")
			before := heap()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			var sent atomic.Int64
			var bodies sync.Map
			for i := range 64 {
				all.Go(func() {
					var body io.Reader
					if direction == "up" {
						body = &zeros{left: 1 << 30, read: &sent}
					}
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/"+direction, body)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := tun.RoundTrip(req) //nolint:bodyclose // below, all together
					if direction == "up" {
						cut <- err
					}
					if err == nil {
						bodies.Store(i, resp.Body) // and nobody reads it
					}
				})
			}
			if direction == "down" {
				all.Wait() // all have their headers
			} else {
				for sent.Load() < 64*(256<<10) { // all windows are full
					time.Sleep(time.Millisecond)
				}
			}
			began := time.Now()
			for i := range 200 {
				for name, peer := range map[string]*tunnel.Tunnel{"the same agent": tun, "another agent": other} {
					path := fmt.Sprint("/", i)
					if got, err := get(t.Context(), peer, path); got != path || err != nil {
						t.Fatalf("%s: got %q, %v", name, got, err)
					}
				}
			}
			took := time.Since(began)
			grown := heap() - before
			t.Logf("400 requests beside 64 stalled ones took %v; %d MiB more", took, grown>>20)
			if grown > 60<<20 {
				t.Errorf("%d MiB more", grown>>20)
			}
			// Then they are cut, one by one, and the connection lives.
			for range 64 {
				if err := <-cut; !errors.Is(err, tunnel.ErrStalled) {
					t.Errorf("cut by %v", err)
				}
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("cut after %v", took)
			}
			if tun.Err() != nil {
				t.Errorf("the connection ended: %v", tun.Err())
			}
			close(release)
			cancel()
			all.Wait()
			bodies.Range(func(_, b any) bool { _ = b.(io.Closer).Close(); return true }) //nolint:errcheck // stored above
		})
	}
}

// T5, in virtual time: the limit is the one that was set, and a reader that reads slowly is not one that stalls.
func TestStreamIsCutAtItsLimitAndASlowOneIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ended := make(chan error, 1)
		w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/down":
				_, err := w.Write(make([]byte, 2<<20))
				ended <- err
			case "/slow":
				for {
					if _, err := io.CopyN(io.Discard, r.Body, 16<<10); err != nil {
						return
					}
					time.Sleep(30 * time.Second)
				}
			default:
				<-r.Context().Done()
			}
		}), nil)
		tun := w.find("a")
		upload := func(path string) error {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent"+path,
				&zeros{left: 2 << 20, read: new(atomic.Int64)})
			resp, err := tun.RoundTrip(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}

		begin := time.Now()
		if err := upload("/up"); !errors.Is(err, tunnel.ErrStalled) || time.Since(begin).Round(time.Second) != time.Minute {
			t.Errorf("up: %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		if err := upload("/slow"); err != nil || time.Since(begin) < 30*time.Minute {
			t.Errorf("slow: %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/down", nil)
		resp, err := tun.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, tunnel.ErrStalled) || time.Since(begin).Round(time.Second) != time.Minute {
			t.Errorf("down: %v after %v", err, time.Since(begin))
		}
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("down: read to the end")
		}
		_ = resp.Body.Close()
		if tun.Err() != nil {
			t.Errorf("the connection ended: %v", tun.Err())
		}
	})
}

// T10: a long body, and a reader that lags behind, in either direction.
//
//nolint:paralleltest // it measures memory
func TestLongBodyNeedsLittleMemory(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	r := newReal(t)
	var sent, taken, most atomic.Int64
	var base int64
	lagging := func(dst io.Writer, src io.Reader) error {
		buf := make([]byte, 32<<10)
		for i := 0; ; i++ {
			n, err := src.Read(buf)
			taken.Add(int64(n))
			if i%4096 == 1000 { // how far behind is it, and what does that cost
				most.Store(max(most.Load(), heap()-base))
			}
			if _, err := dst.Write(buf[:min(n, 1)]); err != nil {
				return err
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	r.agent("a", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			if err := lagging(io.Discard, req.Body); err != nil {
				t.Error(err)
			}
			return
		}
		_, _ = io.Copy(w, &zeros{left: size, read: &sent})
	}), nil)
	tun := r.find("a")
	base = heap()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		sent.Store(0)
		taken.Store(0)
		most.Store(-1 << 40)
		var body io.Reader
		if method == http.MethodPost {
			body = &zeros{left: size, read: &sent}
		}
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://agent/", body)
		begin := time.Now()
		resp, err := tun.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodGet {
			if err := lagging(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
		}
		_ = resp.Body.Close()
		t.Logf("%s: %d MiB in %v, at most %d KiB more", method, taken.Load()>>20, time.Since(begin), most.Load()>>10)
		if taken.Load() != size {
			t.Errorf("%s: took %d of %d", method, taken.Load(), size)
		}
		if most.Load() > 32<<20 {
			t.Errorf("%s: %d MiB more", method, most.Load()>>20)
		}
	}
}

// A peer whose socket takes nothing at all is cut at the write limit, whatever else it does.
func TestConnectionThatTakesNothingIsCut(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	r.handler.Limits = tunnel.Limits{PingAfter: time.Hour, WriteTimeout: 500 * time.Millisecond}
	var deaf atomic.Bool
	r.agent("a", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) }),
		func(a *tunnel.Agent) {
			a.Limits.PingAfter = time.Hour
			a.Dialer.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				return &deafConn{Conn: c, deaf: &deaf, closed: make(chan struct{})}, err
			}
		})
	tun := r.find("a")
	deaf.Store(true)
	var all sync.WaitGroup
	for range 128 { // more than the kernels take
		all.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent/", &zeros{left: 1 << 40, read: new(atomic.Int64)})
			resp, err := tun.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			var lost *tunnel.LostError
			if !errors.As(err, &lost) || !errors.Is(err, tunnel.ErrBlocked) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	deaf.Store(false)
}

// deafConn stops reading when told to.
type deafConn struct {
	net.Conn
	deaf   *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *deafConn) Read(p []byte) (int, error) {
	for c.deaf.Load() {
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		case <-time.After(10 * time.Millisecond):
		}
	}
	return c.Conn.Read(p)
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
