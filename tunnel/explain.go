package tunnel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// FingerprintError means that the server showed another certificate than the pinned one.
type FingerprintError struct{ Server, Want, Got string }

func (e *FingerprintError) Error() string {
	return fmt.Sprintf("%s showed a certificate with fingerprint %s, but %s is pinned: "+
		"if its certificate was renewed, pin the new one; if not, someone is in between", e.Server, e.Got, e.Want)
}

// explainTLS says what a failed handshake comes from.
func explainTLS(u *url.URL, err error) error {
	var (
		record      tls.RecordHeaderError
		unknown     x509.UnknownAuthorityError
		name        x509.HostnameError
		invalid     x509.CertificateInvalidError
		remote      *net.OpError
		fingerprint *FingerprintError
	)
	switch {
	case errors.As(err, &fingerprint):
		return fingerprint
	case errors.As(err, &record) && strings.HasPrefix(string(record.RecordHeader[:]), "HTTP"):
		return fmt.Errorf("%s answers in plain HTTP, not TLS: use the server's TLS port: %w", u.Host, err)
	case errors.As(err, &record):
		return fmt.Errorf("%s does not speak TLS: is it the right port? %w", u.Host, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is signed by nobody known here: "+
			"pin its fingerprint, or trust its authority: %w", u.Host, err)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for another name: "+
			"use a name that it has, or pin its fingerprint: %w", u.Host, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s is not valid now: renew it there, or set the clock here: %w", u.Host, err)
	case errors.As(err, &remote) && remote.Op == "remote error": // as crypto/tls names an alert
		return fmt.Errorf("%s broke off the TLS handshake: it must speak TLS 1.3: %w", u.Host, err)
	case brokeOff(err):
		return fmt.Errorf("%s closed the connection in the TLS handshake: is it the right port? %w", u.Host, err)
	default:
		return fmt.Errorf("TLS handshake with %s: %w", u.Host, err)
	}
}

// explainExchange says why there was no answer to the request for the upgrade.
func explainExchange(u *url.URL, err error) error {
	switch {
	case strings.Contains(err.Error(), "malformed HTTP"):
		return fmt.Errorf("%s does not speak HTTP/1.1: is it the right port%s? %w", u.Host, orTLS(u), err)
	case brokeOff(err):
		return fmt.Errorf("%s closed the connection without an answer to the upgrade: is it the right port%s, and does "+
			"each proxy on the way allow `Upgrade: %s`? %w", u.Host, orTLS(u), Protocol, err)
	default:
		return fmt.Errorf("ask %s for the upgrade: %w", u.Host, err)
	}
}

func orTLS(u *url.URL) string {
	if u.Scheme == "http" {
		return ", and not one for https"
	}
	return ""
}

func brokeOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// explainAnswer says what an answer other than 101 means.
func explainAnswer(u *url.URL, resp *http.Response, body []byte) error {
	if r := refusalFrom(resp, body); r != nil {
		if r.Code != CodeNoUpgrade {
			return r
		}
		return fmt.Errorf("a proxy before %s has removed `Upgrade: %s` from the request: "+
			"let it pass both `Connection: Upgrade` and `Upgrade` on this path, over HTTP/1.1: %w", u.Host, Protocol, r)
	}
	switch {
	case u.Scheme == "http" && resp.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server"):
		return fmt.Errorf("%s speaks TLS only: use https:// instead of http://", u.Host)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s has no tunnels at %q (404): is the path right, and the server a recent one?", u.Host, u.Path)
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return fmt.Errorf("a proxy before %s wants credentials of its own (407)", u.Host)
	default:
		return fmt.Errorf("%s answered %q to the upgrade, and not as a tunnel server does: another service, or a proxy on "+
			"the way that must allow `Upgrade: %s` over HTTP/1.1", u.Host, resp.Status, Protocol)
	}
}
