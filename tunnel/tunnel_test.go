package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath/tunnel"
)

func TestServerCallsTheAgentsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Host", r.Host)
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Method+" "+string(body))
		}), nil)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://inner.test/x", strings.NewReader("hello"))
		resp, err := w.registry.Transport("a").RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "PUT hello" || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Host") != "inner.test" {
			t.Errorf("got %d %q %q, %v", resp.StatusCode, body, resp.Header.Get("X-Host"), err)
		}
		_ = resp.Body.Close()
	})
}

// T7
func TestFindersAreServedAtOnceAndInOrderWhenTheAgentConnects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var order []int
		var finders sync.WaitGroup
		for i := range 50 {
			finders.Go(func() {
				if tun, err := w.registry.Find(t.Context(), "late"); err != nil || tun.ID() != "late" {
					t.Errorf("finder %d: %v", i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait() // it waits now, behind those before
		}
		time.Sleep(time.Hour)
		begin := time.Now()
		w.agent("late", http.HandlerFunc(echoPath), nil)
		finders.Wait()
		if took := time.Since(begin); took > 5*time.Millisecond {
			t.Errorf("served after %v", took)
		}
		if len(order) != 50 { // who runs first of those that have their answer is the scheduler's affair: see members_test.go
			t.Errorf("served: %v", order)
		}
	})
}

func TestFrozenAgentIsAnErrorWithin15Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(echoPath), nil)
		w.find("a")
		time.Sleep(time.Minute)
		if _, err := get(t.Context(), w.find("a"), "/idle"); err != nil {
			t.Fatalf("after an idle minute: %v", err)
		}
		tun := w.find("a")
		conn := w.listener.last()
		conn.freeze()
		begin := time.Now()
		_, err := get(t.Context(), tun, "/x")
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("took %v", took)
		}
		var lost *tunnel.LostError
		if !errors.As(err, &lost) || !errors.Is(err, tunnel.ErrSilent) || lost.ID != "a" {
			t.Errorf("got %v", err)
		}
		<-tun.Done()
		w.find("a") // it came again
	})
}

// The server is the one that is frozen, and the agent finds out.
func TestAgentLeavesAFrozenServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(echoPath), nil)
		first := w.find("a")
		conn := w.listener.last()
		conn.freeze() // to the agent this is the network, and so the server
		begin := time.Now()
		<-first.Done()
		for second := w.find("a"); second == first; second = w.find("a") {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begin); took > 16*time.Second {
			t.Errorf("back after %v", took)
		}
	})
}

func TestMoveDialsAnewBeforeTheOldConnectionGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
			echoPath(w, r)
		}), nil)
		old := w.find("a")
		slow := make(chan error, 1)
		go func() { _, err := get(t.Context(), old, "/slow"); slow <- err }()

		// Meanwhile nobody must notice.
		var enough atomic.Bool
		var load sync.WaitGroup
		var served atomic.Int64
		for range 8 {
			load.Go(func() {
				for !enough.Load() {
					if _, err := get(t.Context(), w.registry.Transport("a"), "/x"); err != nil {
						t.Error(err)
						return
					}
					served.Add(1)
					time.Sleep(7 * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		for range 5 {
			before := w.find("a")
			if err := before.Move(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			<-before.Leaving()
			time.Sleep(10 * time.Millisecond)
			if after := w.find("a"); after == before {
				t.Error("found the one that leaves")
			}
		}
		if old.Err() != nil {
			t.Errorf("closed with a call in flight: %v", old.Err())
		}
		if _, err := get(t.Context(), old, "/y"); !errors.Is(err, tunnel.ErrNotTaken) {
			t.Errorf("a request to the one that leaves: %v", err)
		}
		close(release)
		if err := <-slow; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		<-old.Done()
		enough.Store(true)
		load.Wait()
		t.Logf("%d requests served", served.Load())
	})
}

func TestAgentThatEndsLetsCallsFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := make(chan struct{})
		stop := w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(began)
			time.Sleep(10 * time.Second)
			echoPath(w, r)
		}), nil)
		result := make(chan error, 1)
		go func() { _, err := get(t.Context(), w.find("a"), "/x"); result <- err }()
		<-began
		if err := stop(); !errors.Is(err, errTestOver) {
			t.Errorf("Run: %v", err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

func TestAgentThatEndsCutsCallsAfterItsGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := make(chan struct{})
		stop := w.agent("a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
		}), func(a *tunnel.Agent) { a.Grace = 3 * time.Second })
		result := make(chan error, 1)
		go func() { _, err := get(t.Context(), w.find("a"), "/x"); result <- err }()
		<-began
		begin := time.Now()
		_ = stop()
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
		var lost *tunnel.LostError
		if err := <-result; !errors.As(err, &lost) {
			t.Errorf("got %v", err)
		}
	})
}

// T11
func TestRevokedAgentIsToldAndDoesNotComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var revoked atomic.Bool
		w.handler.Authenticate = func(r *http.Request) (string, error) {
			if revoked.Load() {
				return "", &tunnel.RefusedError{Code: tunnel.CodeUnauthenticated, Message: "the token was revoked; ask for a new one"}
			}
			return r.Header.Get("Agent"), nil
		}
		ended := make(chan error, 1)
		a := &tunnel.Agent{
			URLs: []string{"http://server.test"}, Handler: http.HandlerFunc(echoPath), Connections: 3,
			Dialer: tunnel.Dialer{
				DialContext: w.listener.dial,
				Authorize:   func(_ context.Context, h http.Header) error { h.Set("Agent", "a"); return nil },
			},
		}
		go func() { ended <- a.Run(t.Context()) }()
		tun := w.find("a")
		time.Sleep(time.Second)
		revoked.Store(true)
		begin := time.Now()
		n, err := w.registry.Dismiss(t.Context(), "a", &tunnel.RefusedError{Code: tunnel.CodeRevoked, Message: "the token was revoked"})
		if n != 3 || err != nil {
			t.Errorf("dismissed %d, %v", n, err)
		}
		<-tun.Done()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		var refusal *tunnel.RefusedError
		if err := <-ended; !errors.As(err, &refusal) || refusal.Code != tunnel.CodeUnauthenticated ||
			!strings.Contains(err.Error(), "ask for a new one") {
			t.Errorf("Run: %v", err)
		}
		if n, _ := w.registry.Dismiss(t.Context(), "a", &tunnel.RefusedError{}); n != 0 {
			t.Errorf("%d tunnels left", n)
		}
	})
}

func TestAgentComesBackAfterTheServerWasAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var attempts atomic.Int64
		w.agent("a", http.HandlerFunc(echoPath), func(a *tunnel.Agent) {
			a.Dialer.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if n := attempts.Add(1); n > 1 && n < 20 {
					return nil, errors.New("no route to host")
				}
				return w.listener.dial(ctx, network, address)
			}
		})
		tun := w.find("a")
		tun.Close(errors.New("a cable was pulled"))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		again, err := w.registry.Find(ctx, "a")
		if err != nil || again == tun {
			t.Fatalf("got %v", err)
		}
		// 19 waits of a random part of 1, 2, 4, 8, 16 and then 30 s.
		if took := time.Since(begin); took < time.Minute || took > 10*time.Minute {
			t.Errorf("%d attempts in %v", attempts.Load(), took)
		}
	})
}

func TestDrainMovesAgentsToTheOtherServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := newWorld(t), newWorld(t)
		one.agent("a", http.HandlerFunc(echoPath), func(a *tunnel.Agent) {
			a.URLs = []string{"http://one.test", "http://two.test"}
			a.Connections = 1
			a.Dialer.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "one") {
					return one.listener.dial(ctx, network, address)
				}
				return two.listener.dial(ctx, network, address)
			}
		})
		one.find("a")
		if err := one.registry.Drain(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := get(t.Context(), two.find("a"), "/x"); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainOfTheOnlyServerKeepsTheTunnelUntilTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(echoPath), nil)
		tun := w.find("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		drained := make(chan error, 1)
		go func() { drained <- w.registry.Drain(ctx, time.Second) }()
		time.Sleep(59 * time.Second)
		if _, err := get(t.Context(), w.find("a"), "/x"); err != nil || tun.Err() != nil {
			t.Errorf("while draining: %v, %v", err, tun.Err())
		}
		if err := <-drained; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain: %v", err)
		}
	})
}

func TestNobodyElseMaySpeakOfTheConnectionItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(echoPath), nil)
		req, _ := http.NewRequestWithContext(t.Context(), "TUNNEL", "http://agent/close", nil)
		if resp, err := w.find("a").RoundTrip(req); err == nil {
			t.Errorf("got %s", resp.Status)
			_ = resp.Body.Close()
		}
	})
}

func TestOneAgentCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent("a", http.HandlerFunc(echoPath), func(a *tunnel.Agent) { a.Connections = 20 })
		time.Sleep(10 * time.Second)
		all, err := w.registry.Tunnels(t.Context())
		if err != nil || len(all) != 16 {
			t.Errorf("%d tunnels, %v", len(all), err)
		}
	})
}

// The agent leaves while a request is on its way: the request comes too late to be taken, and its error says that it may
// be sent again. What this rests on are errors of net/http that have no names.
func TestRequestThatCrossesTheGoAwayIsNotTaken(t *testing.T) {
	t.Parallel()
	conns := make(chan net.Conn, 1)
	over := make(chan struct{})
	address := listen(t, func(c net.Conn) { conns <- c; <-over }) // a socket, which takes what nobody reads yet
	defer close(over)
	here, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	held := &heldConn{Conn: <-conns, gate: make(chan struct{}, 1)}
	held.gate <- struct{}{}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- tunnel.Serve(ctx, held, http.HandlerFunc(echoPath), tunnel.Limits{}, time.Minute) }()
	tun, err := tunnel.New(t.Context(), "a", here, tunnel.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(t.Context(), tun, "/x"); err != nil {
		t.Fatal(err)
	}
	<-held.gate // what is sent from here on is on its way
	sent := make(chan struct{})
	result := make(chan error, 1)
	tracing := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) },
	})
	go func() { _, err := get(tracing, tun, "/x"); result <- err }()
	<-sent
	leave()
	if err := <-result; !errors.Is(err, tunnel.ErrNotTaken) {
		t.Errorf("got %v", err)
	}
	held.gate <- struct{}{}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
}

// heldConn reads nothing while the gate is empty, though it takes what is sent.
type heldConn struct {
	net.Conn
	gate chan struct{}
}

func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate <- <-c.gate
	return n, err
}
