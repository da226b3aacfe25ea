package tunnel

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Handler is where agents connect: an [http.Handler] for one path of a server that speaks HTTP/1.1 over TLS 1.3. It
// takes the connection over from the http.Server; the goroutine that called it stays with the tunnel until that has ended.
// The http.Server's ReadHeaderTimeout is what keeps slow callers from holding connections before they are let in.
type Handler struct {
	// Registry gets the tunnels. Its Run must be running.
	Registry *Registry
	// Authenticate says which agent a request comes from. A [*RefusedError] is told to the agent as it is; any other error is
	// logged, and told as unavailable.
	Authenticate func(*http.Request) (id string, err error)
	// Limits bound each connection.
	Limits Limits
	// Logger hears of agents that come and go. Default: nobody does.
	Logger *slog.Logger
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	log := h.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("remote", r.RemoteAddr)
	if refusal := h.wantsUpgrade(r); refusal != nil {
		refuse(w, refusal)
		return
	}
	id, err := h.Authenticate(r)
	if err != nil {
		var refusal *RefusedError
		if !errors.As(err, &refusal) {
			log.ErrorContext(ctx, "agent not authenticated", "err", err)
			refusal = &RefusedError{Code: CodeUnavailable, Message: "the server cannot authenticate agents now; try again later"}
		}
		log.InfoContext(ctx, "agent refused", "code", refusal.Code, "err", refusal.Message)
		refuse(w, refusal)
		return
	}
	log = log.With("agent", id)
	if refusal := h.Registry.refusing(); refusal != nil {
		refuse(w, refusal)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		log.ErrorContext(ctx, "connection not taken over", "err", err)
		refuse(w, &RefusedError{Code: CodeNoUpgrade, Message: "the request came over " + r.Proto + ", which has no upgrade; use HTTP/1.1"})
		return
	}
	err = conn.SetDeadline(time.Now().Add(h.Limits.withDefaults().HandshakeTimeout))
	if err == nil {
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"))
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		log.InfoContext(ctx, "agent gone before the tunnel was up", "err", errors.Join(err, conn.Close()))
		return
	}
	t, err := New(ctx, id, withBuffered(conn, buffered.Reader), h.Limits)
	if err != nil {
		log.InfoContext(ctx, "agent gone before the tunnel was up", "err", err)
		return
	}
	log.InfoContext(ctx, "agent connected")
	err = h.Registry.Serve(ctx, t)
	log.InfoContext(ctx, "agent disconnected", "err", err, "took", time.Since(t.since))
}

// wantsUpgrade refuses what does not ask for this version of the protocol.
func (h *Handler) wantsUpgrade(r *http.Request) *RefusedError {
	switch got := r.Header.Get("Upgrade"); {
	case got == Protocol && r.ProtoMajor == 1:
		return nil
	case strings.HasPrefix(got, protocolName):
		return &RefusedError{
			Code:    CodeIncompatible,
			Message: "this server speaks " + Protocol + ", the agent " + got + "; upgrade the older of the two",
		}
	default:
		return &RefusedError{
			Code:    CodeNoUpgrade,
			Message: "the request asks for no upgrade to " + Protocol + " over HTTP/1.1; an agent's does, so something took it out",
		}
	}
}

func refuse(w http.ResponseWriter, r *RefusedError) {
	body, err := json.Marshal(r)
	if err != nil { // cannot be: two strings
		http.Error(w, r.Message, r.status())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set(refusalHeader, string(r.Code))
	h.Set("Connection", "close")
	if r.status() == http.StatusUpgradeRequired {
		h.Set("Upgrade", Protocol)
	}
	w.WriteHeader(r.status())
	_, _ = w.Write(body)
}
