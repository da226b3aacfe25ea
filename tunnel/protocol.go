package tunnel

import (
	"fmt"
	"net/http"
	"time"
)

// Protocol is the token of the HTTP upgrade. A proxy in between must let `Connection: Upgrade` with it pass.
const Protocol = "towpath-tunnel/1"

// protocolName is what all versions of the token begin with.
const protocolName = "towpath-tunnel/"

// refusalHeader marks an answer as one of ours, so that a proxy's page is never taken for it.
const refusalHeader = "Tunnel-Refusal"

// The two ends speak of the connection itself in requests with a method of their own, which [Tunnel.RoundTrip] lets
// nobody else send.
const (
	controlMethod = "TUNNEL"
	helloPath     = "/hello" // the first request: from here on the connection is up
	movePath      = "/move"  // dial anew, then leave this connection
	closePath     = "/close" // this connection ends now, and why

	withinParam = "within"
	codeParam   = "code"
	reasonParam = "reason"
)

// host is the authority of requests that name none of their own.
const host = "agent"

// control serves the requests about the connection itself and hands all others on.
func (c *agentConn) control(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != controlMethod {
			c.serveWatched(w, r, next)
			return
		}
		switch q := r.URL.Query(); r.URL.Path {
		case helloPath:
			c.upOnce.Do(func() { close(c.up) })
		case movePath:
			within, err := time.ParseDuration(q.Get(withinParam))
			if err != nil || within < 0 {
				http.Error(w, fmt.Sprintf("%s: not a duration: %q", withinParam, q.Get(withinParam)), http.StatusBadRequest)
				return
			}
			select {
			case c.move <- within:
			default: // told already
			}
		case closePath:
			c.said.CompareAndSwap(nil, &RefusedError{Code: Code(q.Get(codeParam)), Message: q.Get(reasonParam)})
		default:
			http.Error(w, "this version knows no "+r.URL.Path, http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
