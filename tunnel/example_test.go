package tunnel_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/towpath/towpath/tunnel"
)

// A server that can be reached, an agent that cannot, and a request from the first to the second.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup

	// The server: a registry, and a path where agents connect.
	registry := tunnel.NewRegistry()
	running.Go(func() { _ = registry.Run(ctx) })
	srv := httptest.NewTLSServer(&tunnel.Handler{
		Registry: registry,
		Authenticate: func(r *http.Request) (string, error) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				return "", &tunnel.RefusedError{Code: tunnel.CodeUnauthenticated, Message: "wrong token; make a new one"}
			}
			return "basement", nil
		},
	})

	// The agent: a handler, and where to dial.
	agent := &tunnel.Agent{
		URLs: []string{srv.URL},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s from the basement", r.URL.Path[1:])
		}),
		Dialer: tunnel.Dialer{
			Fingerprint: fmt.Sprintf("sha256:%x", sha256.Sum256(srv.Certificate().Raw)),
			Authorize: func(_ context.Context, h http.Header) error {
				h.Set("Authorization", "Bearer secret")
				return nil
			},
		},
	}
	running.Go(func() { _ = agent.Run(ctx) })

	// Anywhere in the server: a client of that agent. It waits until the agent is there.
	client := &http.Client{Transport: registry.Transport("basement"), Timeout: 10 * time.Second}
	resp, err := client.Get("http://agent/greetings")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.Copy(os.Stdout, resp.Body)
	_ = resp.Body.Close()

	cancel()
	running.Wait()
	srv.Close()
	// Output: greetings from the basement
}

// Bytes that are not HTTP: the agent joins each stream to a connection of its own network, if it is on its list.
func ExampleTunnel_Dial() {
	inner, err := net.Listen("tcp", "127.0.0.1:0") // what only the agent reaches
	if err != nil {
		fmt.Println(err)
		return
	}
	var running sync.WaitGroup
	running.Go(func() {
		c, err := inner.Accept()
		if err != nil {
			return
		}
		line := make([]byte, 5)
		_, _ = io.ReadFull(c, line)
		_, _ = io.WriteString(c, strings.ToUpper(string(line)))
		_ = c.Close()
	})

	allowed := map[string]string{"shouter:7": inner.Addr().String()}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, ok := allowed[r.Host]
		if r.Method != http.MethodConnect || !ok {
			http.Error(w, r.Host+" is not on the list", http.StatusForbidden)
			return
		}
		out, err := new(net.Dialer).DialContext(r.Context(), "tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = out.Close() }()
		stream, err := tunnel.Accept(w, r)
		if err != nil {
			return
		}
		var up sync.WaitGroup
		up.Go(func() {
			_, _ = io.Copy(out, stream)
			if half, ok := out.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
		_, _ = io.Copy(stream, out)
		_ = stream.Close()
		up.Wait()
	})

	// Both ends over a connection in memory; a Handler and an Agent do the same over a network.
	here, there := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running.Go(func() { _ = tunnel.Serve(ctx, there, handler, tunnel.Limits{}, time.Second) })
	t, err := tunnel.New(ctx, "basement", here, tunnel.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := t.Dial(ctx, "shouter:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.WriteString(stream, "hello")
	said, err := io.ReadAll(stream)
	fmt.Println(string(said), err)
	_ = stream.Close()

	_, err = t.Dial(ctx, "safe:443")
	var refused *tunnel.ConnectError
	fmt.Println(errors.As(err, &refused), refused.Status)

	t.Close(nil)
	cancel()
	running.Wait()
	_ = inner.Close()
	// Output:
	// HELLO <nil>
	// true 403
}

// Find waits for an agent as long as its context allows.
func ExampleRegistry_Find() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registry := tunnel.NewRegistry()
	var running sync.WaitGroup
	running.Go(func() { _ = registry.Run(ctx) })

	soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	_, err := registry.Find(soon, "attic")
	stop()
	fmt.Println(err)

	cancel()
	running.Wait()
	_, err = registry.Find(context.Background(), "attic")
	fmt.Println(errors.Is(err, tunnel.ErrClosed))
	// Output:
	// wait for agent "attic" to connect: context deadline exceeded
	// true
}

// A token is revoked: from then on it is refused, then the tunnels that it opened are closed.
func ExampleRegistry_Dismiss() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registry := tunnel.NewRegistry()
	var running sync.WaitGroup
	running.Go(func() { _ = registry.Run(ctx) })
	revoked := &tunnel.RefusedError{Code: tunnel.CodeRevoked, Message: "the token was revoked by its owner"}

	var mu sync.Mutex
	valid := true
	srv := httptest.NewServer(&tunnel.Handler{Registry: registry, Authenticate: func(*http.Request) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if !valid {
			return "", revoked
		}
		return "attic", nil
	}})
	ended := make(chan error, 1)
	running.Go(func() {
		ended <- (&tunnel.Agent{URLs: []string{srv.URL}, Handler: http.NotFoundHandler()}).Run(ctx)
	})
	if _, err := registry.Find(ctx, "attic"); err != nil {
		fmt.Println(err)
	}

	mu.Lock()
	valid = false
	mu.Unlock()
	n, err := registry.Dismiss(ctx, "attic", revoked)
	fmt.Println(n, err)
	fmt.Println(<-ended)

	cancel()
	running.Wait()
	srv.Close()
	// Output:
	// 1 <nil>
	// refused by the server (revoked): the token was revoked by its owner
}
