package tunnel

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Dialer makes connections to a server's [Handler]. The zero value trusts the system's roots and sends no credentials.
type Dialer struct {
	// TLS is the configuration for https URLs. TLS 1.3 is required whatever it says.
	TLS *tls.Config
	// Fingerprint, if set, is the SHA-256 of the server's certificate, as `sha256:` and 64 hexadecimal digits. It takes
	// the place of certificate authorities and names: that certificate is trusted, and no other.
	Fingerprint string
	// Authorize adds the agent's credentials to the request for the upgrade; it is asked each time, so that what it
	// gives may be renewed.
	Authorize func(ctx context.Context, h http.Header) error
	// Proxy names the HTTP proxy to ask for a CONNECT, if any; [http.ProxyFromEnvironment] is one.
	Proxy func(*http.Request) (*url.URL, error)
	// DialContext makes the connection below all else. Default: a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout bounds all of Dial. Default 10 s.
	Timeout time.Duration
}

// Dial connects to the handler at an https URL and returns the connection after the upgrade, for [Serve]. A URL with
// http is for tests and for networks that encrypt below; nothing protects the credentials on it.
//
// A server that says no is a [*RefusedError]. All other errors say what was tried, what was found, and what to do.
func (d *Dialer) Dial(ctx context.Context, address string) (net.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the server's URL: %w", err)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("the server's URL: https://HOST[:PORT][/PATH] is wanted, not %q", address)
	}
	timeout := d.Timeout
	if timeout <= 0 {
		timeout = Limits{}.withDefaults().HandshakeTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no tunnel to %s within %v", u.Host, timeout))
	defer cancel()
	conn, err := d.connect(ctx, u)
	if err != nil {
		return nil, timedOut(ctx, err)
	}
	// From here on the connection itself has the deadline.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	up, err := d.upgrade(ctx, conn, u)
	if stopped := stop(); err == nil && !stopped {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, timedOut(ctx, err)
	}
	return up, nil
}

// timedOut puts what the time ran out for before what happened to break off for it.
func timedOut(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func (d *Dialer) connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	proxy, err := d.proxy(u)
	if err != nil {
		return nil, err
	}
	dial := d.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	first := u
	if proxy != nil {
		first = proxy
	}
	conn, err := dial(ctx, "tcp", hostPort(first))
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", first.Host, err)
	}
	if proxy != nil {
		if conn, err = throughProxy(ctx, conn, proxy, hostPort(u)); err != nil {
			return nil, err
		}
	}
	if u.Scheme == "http" {
		return conn, nil
	}
	config, err := d.tlsConfig(u)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, explainTLS(u, err)
	}
	return secured, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (d *Dialer) proxy(u *url.URL) (*url.URL, error) {
	if d.Proxy == nil {
		return nil, nil //nolint:nilnil // no proxy, as http.Transport's own field says it
	}
	proxy, err := d.Proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)})
	if err != nil {
		return nil, fmt.Errorf("ask for the proxy to %s: %w", u.Host, err)
	}
	if proxy != nil && proxy.Scheme != "http" {
		return nil, fmt.Errorf("proxy %s: only http proxies are supported, not %q", proxy.Redacted(), proxy.Scheme)
	}
	return proxy, nil
}

// throughProxy closes conn if it fails.
func throughProxy(ctx context.Context, conn net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: make(http.Header)}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		req.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)))
	}
	resp, buffered, err := exchange(conn, req)
	if err == nil {
		_ = resp.Body.Close() // none after a CONNECT; of an error's nothing is wanted
		if resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answered %s: allow CONNECT to %s there", resp.Status, address)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Redacted(), err)
	}
	return withBuffered(conn, buffered), nil
}

func (d *Dialer) tlsConfig(u *url.URL) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if d.TLS != nil {
		config = d.TLS.Clone()
		config.MinVersion = max(config.MinVersion, tls.VersionTLS13)
	}
	config.NextProtos = []string{"http/1.1"} // HTTP/2 knows no upgrade
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	if d.Fingerprint == "" {
		return config, nil
	}
	want, err := parseFingerprint(d.Fingerprint)
	if err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = true // in favour of one certificate exactly
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if got := sha256.Sum256(s.PeerCertificates[0].Raw); got != want {
			return &FingerprintError{Server: u.Host, Want: d.Fingerprint, Got: "sha256:" + hex.EncodeToString(got[:])}
		}
		return nil
	}
	return config, nil
}

func parseFingerprint(s string) (sum [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(s, "sha256:")
	raw, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
	if !ok || err != nil || len(raw) != len(sum) {
		return sum, fmt.Errorf("the server's fingerprint: sha256: and 64 hexadecimal digits are wanted, not %q", s)
	}
	return [sha256.Size]byte(raw), nil
}

// upgrade asks for the protocol on conn.
func (d *Dialer) upgrade(ctx context.Context, conn net.Conn, u *url.URL) (net.Conn, error) {
	path := u.Path
	if path == "" {
		path = "/"
	}
	req := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: u.RawQuery}, Host: u.Host, Header: make(http.Header),
		ProtoMajor: 1, ProtoMinor: 1,
	}
	if d.Authorize != nil {
		if err := d.Authorize(ctx, req.Header); err != nil {
			return nil, fmt.Errorf("get credentials for %s: %w", u.Host, err)
		}
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	resp, buffered, err := exchange(conn, req)
	if err != nil {
		return nil, explainExchange(u, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // as much as came; it only explains
		return nil, explainAnswer(u, resp, body)
	}
	if got := resp.Header.Get("Upgrade"); got != Protocol {
		return nil, fmt.Errorf("%s upgraded to %q, not to %q: another service answers there, or a proxy that handles only "+
			"WebSocket", u.Host, got, Protocol)
	}
	return withBuffered(conn, buffered), nil
}

func exchange(conn net.Conn, req *http.Request) (*http.Response, *bufio.Reader, error) {
	if err := req.Write(conn); err != nil {
		return nil, nil, err
	}
	buffered := bufio.NewReader(conn)
	resp, err := http.ReadResponse(buffered, req)
	return resp, buffered, err
}

// withBuffered gives back what a reader has taken from the connection already.
func withBuffered(conn net.Conn, r *bufio.Reader) net.Conn {
	n := r.Buffered()
	if n == 0 {
		return conn
	}
	early, _ := r.Peek(n) // cannot fail: it is there
	return &earlyConn{Conn: conn, early: early}
}

// earlyConn reads first what had been read before. One goroutine reads.
type earlyConn struct {
	net.Conn
	early []byte
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// NetConn is the connection below, for who must close it without ado.
func (c *earlyConn) NetConn() net.Conn {
	if below, ok := c.Conn.(*tls.Conn); ok {
		return below.NetConn()
	}
	return c.Conn
}

func refusalFrom(resp *http.Response, body []byte) *RefusedError {
	code := resp.Header.Get(refusalHeader)
	if code == "" {
		return nil
	}
	r := new(RefusedError)
	if json.Unmarshal(body, r) != nil || r.Message == "" {
		r.Message = resp.Status
	}
	r.Code = Code(code)
	return r
}
