package tunnel_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/towpath/towpath/tunnel"
)

func TestAgentPinsTheServersFingerprint(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	r.agent("a", http.HandlerFunc(echoPath), func(a *tunnel.Agent) {
		a.Dialer.TLS = nil
		a.Dialer.Fingerprint = r.fingerprint()
	})
	if got, err := get(t.Context(), r.find("a"), "/x"); got != "/x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// What can be wrong on the way to the server, and what the agent says of it.
func TestDialSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	target, _ := url.Parse(r.srv.URL)
	strips := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Del("Connection") // as proxies do with what is hop by hop
		req.Header.Del("Upgrade")
		p := httputil.NewSingleHostReverseProxy(target)
		p.Transport = r.srv.Client().Transport
		p.ServeHTTP(w, req)
	}))
	t.Cleanup(strips.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>Bad Gateway</h1>", http.StatusBadGateway)
	}))
	t.Cleanup(page.Close)
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS12} //nolint:gosec // that is the point
	old.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	old.StartTLS()
	t.Cleanup(old.Close)
	websocket := "http://" + listen(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	})
	hangsUp := "http://" + listen(t, func(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)) })
	ssh := "https://" + listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n") })
	silent := "https://" + listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })

	trusting := r.dialer("a")
	for _, c := range []struct {
		name, url string
		change    func(*tunnel.Dialer)
		want      []string
	}{
		{"no URL", "server.test:443", nil, []string{"https://HOST"}},
		{"nobody listens", "https://127.0.0.1:1/tunnel", nil, []string{"reach 127.0.0.1:1", "refused"}},
		{"unknown authority", r.url(), func(d *tunnel.Dialer) { d.TLS = nil }, []string{"signed by nobody known here", "fingerprint"}},
		{"other name", r.url(), func(d *tunnel.Dialer) { d.TLS.ServerName = "other.test" }, []string{"for another name"}},
		{
			"wrong fingerprint", r.url(), func(d *tunnel.Dialer) { d.Fingerprint = "sha256:" + strings.Repeat("00", 32) },
			[]string{r.fingerprint(), "is pinned"},
		},
		{"no fingerprint", r.url(), func(d *tunnel.Dialer) { d.Fingerprint = "sha256:zz" }, []string{"64 hexadecimal digits"}},
		{"HTTP to a TLS port", strings.Replace(r.url(), "https", "http", 1), nil, []string{"speaks TLS only", "https://"}},
		{"TLS to an HTTP port", strings.Replace(plain.URL, "http", "https", 1), nil, []string{"plain HTTP"}},
		{"TLS to something else", ssh, nil, []string{"does not speak TLS", "right port"}},
		{"TLS too old", old.URL, func(d *tunnel.Dialer) { d.TLS.InsecureSkipVerify = true }, []string{"TLS 1.3"}},
		{"no credentials", r.url(), func(d *tunnel.Dialer) { d.Authorize = nil }, []string{"unauthenticated", "make one on the server"}},
		{"wrong path", r.srv.URL + "/elsewhere", nil, []string{"no tunnels at", "404"}},
		{"proxy strips the upgrade", strips.URL + "/tunnel", nil, []string{"a proxy before", "has removed", "let it pass"}},
		{"proxy shows a page", page.URL, nil, []string{"502", "must allow `Upgrade: towpath-tunnel/1`"}},
		{"proxy knows WebSocket only", websocket, nil, []string{"websocket", "towpath-tunnel/1"}},
		{"proxy hangs up", hangsUp, nil, []string{"without an answer", "allow"}},
		{"nobody answers", silent, func(d *tunnel.Dialer) { d.Timeout = 200 * time.Millisecond }, []string{"no tunnel to", "within 200ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := trusting
			d.TLS = r.roots()
			if c.change != nil {
				c.change(&d)
			}
			conn, err := d.Dial(t.Context(), c.url)
			if err == nil {
				_ = conn.Close()
				t.Fatal("connected")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

// A proxy that passes the upgrade on, and what follows it too, is no hindrance.
func TestTunnelThroughAReverseProxy(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	target, _ := url.Parse(r.srv.URL)
	passes := httputil.NewSingleHostReverseProxy(target)
	passes.Transport = r.srv.Client().Transport
	proxy := httptest.NewServer(passes)
	t.Cleanup(proxy.Close)
	stop := r.agent("a", http.HandlerFunc(echoPath), func(a *tunnel.Agent) { a.URLs = []string{proxy.URL + "/tunnel"} })
	if got, err := get(t.Context(), r.find("a"), "/x"); got != "/x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	stop() // before the proxy
}

// A proxy that passes the upgrade on, but nothing after it.
func TestAgentSaysThatAProxySwallowsWhatFollows(t *testing.T) {
	t.Parallel()
	address := listen(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: towpath-tunnel/1\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	a := &tunnel.Agent{
		URLs: []string{"http://" + address}, Handler: http.HandlerFunc(echoPath),
		Limits: tunnel.Limits{HandshakeTimeout: 300 * time.Millisecond},
		GiveUp: func(error) bool { return true },
	}
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "must pass on what follows") {
		t.Errorf("got %v", err)
	}
}

func TestTunnelThroughAConnectProxyWithCredentials(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	var mu sync.Mutex
	var asked []string
	address := listen(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		mu.Lock()
		asked = append(asked, req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if req.Header.Get("Proxy-Authorization") == "" {
			_, _ = io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		up, err := new(net.Dialer).DialContext(t.Context(), "tcp", req.Host)
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		var back sync.WaitGroup
		back.Go(func() { _, _ = io.Copy(c, up); _ = c.Close() })
		_, _ = io.Copy(up, c)
		_ = up.Close()
		back.Wait()
	})
	via := func(user *url.Userinfo) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: "http", Host: address, User: user})
	}
	d := r.dialer("a")
	d.Proxy = via(nil)
	if _, err := d.Dial(t.Context(), r.url()); err == nil || !strings.Contains(err.Error(), "407") {
		t.Errorf("without credentials: %v", err)
	}
	stop := r.agent("a", http.HandlerFunc(echoPath), func(a *tunnel.Agent) { a.Dialer.Proxy = via(url.UserPassword("u", "p")) })
	if got, err := get(t.Context(), r.find("a"), "/x"); got != "/x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	if want := "CONNECT " + r.srv.Listener.Addr().String() + " Basic dTpw"; asked[1] != want {
		t.Errorf("got %q, want %q", asked[1], want)
	}
}

func TestOtherVersionIsRefusedWithWhatToUpgrade(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url(), nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "towpath-tunnel/7")
	resp, err := r.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusUpgradeRequired || !strings.Contains(string(body), "upgrade the older") {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

func TestFailureToAuthenticateTellsNothingInside(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	r.handler.Authenticate = func(*http.Request) (string, error) { return "", errors.New("database at 10.1.2.3 is away") }
	d := r.dialer("a")
	_, err := d.Dial(t.Context(), r.url())
	var refusal *tunnel.RefusedError
	if !errors.As(err, &refusal) || refusal.Final() || strings.Contains(err.Error(), "10.1.2.3") {
		t.Errorf("got %v", err)
	}
	if _, err := d.Dial(canceled(t), r.url()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
