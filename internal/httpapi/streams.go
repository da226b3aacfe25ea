package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towpath/towpath"
)

// A stream is one object a line: {"item": …} for each item, then {"end": true}, or {"error": {…}} where it broke off. A
// stream without its last line was cut by the network.

func (a *api) atoms(ctx context.Context, p *BuildPath) (*huma.StreamResponse, error) {
	return lines(ctx, a, p.Build, a.cfg.Stream.Atoms(ctx, p.Build))
}

func (a *api) attempts(ctx context.Context, p *BuildPath) (*huma.StreamResponse, error) {
	return lines(ctx, a, p.Build, a.cfg.Stream.Attempts(ctx, p.Build))
}

func (a *api) cases(ctx context.Context, in *struct {
	BuildPath
	Atom int `query:"atom" default:"-1" doc:"the index of an atom; -1 is all"`
},
) (*huma.StreamResponse, error) {
	return lines(ctx, a, in.Build, a.cfg.Stream.Cases(ctx, in.Build, in.Atom))
}

func (a *api) history(ctx context.Context, in *struct {
	BuildPath
	Atom string `query:"atom" required:"true"`
	Case string `query:"case"`
},
) (*huma.StreamResponse, error) {
	return lines(ctx, a, in.Build, a.cfg.Stream.History(ctx, in.Build, in.Atom, in.Case))
}

func (a *api) events(ctx context.Context, in *struct {
	BuildPath
	From int64 `query:"from" minimum:"0" doc:"only events after this one"`
},
) (*huma.StreamResponse, error) {
	return lines(ctx, a, in.Build, a.cfg.Stream.Events(ctx, in.Build, in.From))
}

func (a *api) log(ctx context.Context, in *struct {
	BuildPath
	Atom    string `query:"atom" doc:"only logs of this atom"`
	Attempt int    `query:"attempt" doc:"only logs of the attempt with this number"`
	Offset  int64  `query:"offset" minimum:"0" doc:"skip this many bytes of each log"`
	Follow  bool   `query:"follow" doc:"go on until the build has ended"`
},
) (*huma.StreamResponse, error) {
	q := towpath.LogQuery{Attempt: in.Attempt, Atom: in.Atom, Offset: in.Offset}
	return lines(ctx, a, in.Build, a.cfg.Stream.Log(ctx, in.Build, q, in.Follow))
}

// lines answers with a stream, after a look whether there is such a build.
func lines[T any](ctx context.Context, a *api, n towpath.BuildNumber, items iter.Seq2[T, error]) (*huma.StreamResponse, error) {
	if _, err := a.cfg.Reader.Build(ctx, n); err != nil {
		return nil, a.problem(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/x-ndjson")
		w := hc.BodyWriter()
		enc := json.NewEncoder(w)
		flush := func() {}
		if f, ok := w.(http.Flusher); ok {
			flush = f.Flush
		}
		for item, err := range ahead(ctx, items, flush) {
			if err != nil {
				if ctx.Err() == nil {
					_ = enc.Encode(map[string]any{"error": map[string]string{"code": string(towpath.CodeOf(err)), "message": a.publicMessage(ctx, err)}})
				}
				return
			}
			if enc.Encode(map[string]any{"item": item}) != nil {
				return // the caller has gone
			}
		}
		_ = enc.Encode(map[string]bool{"end": true})
	}}, nil
}

// lookAhead is how many items a stream takes before the caller was sent the first of them.
const lookAhead = 256

// ahead yields items and calls idle before it has to wait for the next one, so that a stream is flushed when there is
// nothing more to send and not for each of a hundred thousand items.
func ahead[T any](ctx context.Context, items iter.Seq2[T, error], idle func()) iter.Seq2[T, error] {
	type pair struct {
		item T
		err  error
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		taken := make(chan pair, lookAhead)
		var taker sync.WaitGroup
		taker.Go(func() {
			defer close(taken)
			for item, err := range items {
				select {
				case taken <- pair{item, err}:
				case <-ctx.Done():
					return
				}
			}
		})
		defer taker.Wait()
		defer cancel()
		for {
			select {
			case p, ok := <-taken:
				if !ok || !yield(p.item, p.err) {
					return
				}
				continue
			default:
			}
			idle()
			p, ok := <-taken // ends with items, which end with the request's context
			if !ok || !yield(p.item, p.err) {
				return
			}
		}
	}
}

// problem is the error answer of RFC 9457, with our code beside its status.
type problem struct {
	Status int          `json:"status"`
	Title  string       `json:"title"`
	Code   towpath.Code `json:"code"`
	Detail string       `json:"detail"`
}

func (p *problem) Error() string  { return p.Detail }
func (p *problem) GetStatus() int { return p.Status }

func (a *api) problem(ctx context.Context, err error) error {
	code := towpath.CodeOf(err)
	status := statusOf(code)
	return &problem{Status: status, Title: http.StatusText(status), Code: code, Detail: a.publicMessage(ctx, err)}
}

// publicMessage is what people outside may read of an error; what is not meant for them goes to the log whole.
func (a *api) publicMessage(ctx context.Context, err error) string {
	if known := new(towpath.Error); errors.As(err, &known) {
		return known.Message
	}
	a.cfg.Log.ErrorContext(ctx, "request met an unexpected error", "err", err)
	return "internal error; the server's log has the details"
}

func statusOf(code towpath.Code) int {
	switch code {
	case towpath.CodeUsage, towpath.CodeConfig:
		return http.StatusBadRequest
	case towpath.CodeNotFound:
		return http.StatusNotFound
	case towpath.CodeConflict, towpath.CodeCanceled:
		return http.StatusConflict
	case towpath.CodeForbidden:
		return http.StatusForbidden
	case towpath.CodeUnauthenticated:
		return http.StatusUnauthorized
	case towpath.CodeUnavailable:
		return http.StatusServiceUnavailable
	case towpath.CodeSessionLost:
		return http.StatusGone
	case towpath.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}
