package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/towpath/towpath/tunnel"
)

// agentProcess is an agent named by its environment; the test starts it as a process of its own.
func agentProcess(url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	a := &tunnel.Agent{
		URLs: []string{url},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hang" {
				<-r.Context().Done()
				return
			}
			echoPath(w, r)
		}),
		Dialer: tunnel.Dialer{
			Fingerprint: os.Getenv("TUNNEL_TEST_FINGERPRINT"),
			Authorize: func(_ context.Context, h http.Header) error {
				h.Set("Agent", os.Getenv("TUNNEL_TEST_NAME"))
				return nil
			},
			Timeout: 2 * time.Second,
		},
		Grace: time.Second, MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second,
	}
	if err := a.Run(ctx); !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startAgent starts an agent's process, by the words given before it if any.
func (r *real) startAgent(id, url string, by ...string) *os.Process {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	line := append(by, self)
	cmd := exec.CommandContext(r.t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "TUNNEL_TEST_AGENT="+url, "TUNNEL_TEST_NAME="+id, "TUNNEL_TEST_FINGERPRINT="+r.fingerprint())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("agent %s: %s", id, stderr.String())
		}
	})
	return cmd.Process
}

// T5a: the process is stopped; its kernel still acknowledges what is sent to it.
func TestStoppedProcessIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits 10 s of real time for a ping")
	}
	r := newReal(t)
	p := r.startAgent("a", r.url())
	tun := r.find("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hanging := make(chan error, 1)
	go func() { _, err := get(ctx, tun, "/hang"); hanging <- err }()
	if _, err := get(ctx, tun, "/x"); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err := get(ctx, tun, "/x")
	for name, err := range map[string]error{"new": err, "in flight": <-hanging} {
		if !errors.Is(err, tunnel.ErrSilent) || !strings.Contains(err.Error(), "frozen") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("noticed after %v", time.Since(begin))
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("noticed after %v", took)
	}
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := get(ctx, r.find("a"), "/x"); err != nil {
		t.Errorf("after it goes on: %v", err)
	}
}

// T6: packets between the two are dropped, so that neither end of the connection hears of it.
func TestHalfOpenConnectionIsNoticedAndFindersAreServedWhenTheAgentIsBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits 10 s of real time for a ping")
	}
	ns := newNamespace(t)
	r := newReal(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ns.here, "0"))
	if err != nil {
		t.Fatal(err)
	}
	second := &httptest.Server{Listener: l, Config: &http.Server{Handler: r.srv.Config.Handler, ErrorLog: r.srv.Config.ErrorLog}}
	second.StartTLS() // with the same certificate as the first
	t.Cleanup(second.Close)
	r.startAgent("a", second.URL+"/tunnel", "ip", "netns", "exec", ns.name)
	first := r.find("a")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := get(ctx, first, "/x"); err != nil {
		t.Fatal(err)
	}
	hanging := make(chan error, 1)
	go func() { _, err := get(ctx, first, "/hang"); hanging <- err }()

	ns.ip("link", "set", ns.device, "down") // of the server's end: the agent's packets go nowhere, and the server's neither
	begin := time.Now()
	if err := <-hanging; !errors.Is(err, tunnel.ErrSilent) {
		t.Errorf("in flight: %v", err)
	}
	<-first.Done()
	t.Logf("noticed after %v", time.Since(begin))
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("noticed after %v", took)
	}
	found := make(chan error, 1)
	go func() {
		tun, err := r.registry.Find(ctx, "a")
		if err == nil {
			_, err = get(ctx, tun, "/x")
		}
		found <- err
	}()
	select {
	case err := <-found:
		t.Fatalf("found while cut off: %v", err)
	case <-time.After(time.Second):
	}
	ns.ip("link", "set", ns.device, "up")
	if err := <-found; err != nil {
		t.Errorf("after it is back: %v", err)
	}
}

// namespace is a network of its own, joined to ours by a pair of devices.
type namespace struct {
	t            *testing.T
	name, device string // the device is our end
	here         string // its address
}

var namespaces atomic.Int64

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux, to make a network namespace")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the ip command, to make a network namespace")
	}
	id := fmt.Sprintf("%d-%d", os.Getpid()%100000, namespaces.Add(1))
	ns := &namespace{t: t, name: "tun" + id, device: "tu" + id}
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", ns.name).CombinedOutput(); err != nil {
		t.Skipf("cannot make a network namespace here: %s", out)
	}
	t.Cleanup(func() {
		_ = exec.CommandContext(context.Background(), "ip", "netns", "del", ns.name).Run()
		_ = exec.CommandContext(context.Background(), "ip", "link", "del", ns.device).Run()
	})
	net := fmt.Sprintf("10.213.%d.", os.Getpid()%250)
	ns.here = net + "1"
	peer := "tv" + id
	ns.ip("link", "add", ns.device, "type", "veth", "peer", "name", peer, "netns", ns.name)
	ns.ip("addr", "add", ns.here+"/24", "dev", ns.device)
	ns.ip("link", "set", ns.device, "up")
	ns.ip("-n", ns.name, "addr", "add", net+"2/24", "dev", peer)
	ns.ip("-n", ns.name, "link", "set", peer, "up")
	return ns
}

func (ns *namespace) ip(args ...string) {
	ns.t.Helper()
	if out, err := exec.CommandContext(ns.t.Context(), "ip", args...).CombinedOutput(); err != nil {
		ns.t.Fatalf("ip %s: %s", strings.Join(args, " "), out)
	}
}
