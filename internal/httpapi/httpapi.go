// Package httpapi is Towpath's HTTP API: JSON with an OpenAPI description at /openapi.json, and streams of one JSON
// object a line. The server package gives it what it reads from and whom it asks; it decides nothing, keeps nothing, and
// starts no goroutine.
package httpapi

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/towpath/towpath"
)

// Reader is where answers about builds come from.
type Reader interface {
	Builds(ctx context.Context, f towpath.BuildFilter) ([]towpath.BuildInfo, error)
	Build(ctx context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error)
	Job(ctx context.Context, n towpath.BuildNumber) (towpath.Job, error)
}

// Streamer is where long answers come from.
type Streamer interface {
	Atoms(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AtomInfo, error]
	Attempts(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AttemptInfo, error]
	// Cases yields the cases of one atom, or of all if atom is -1.
	Cases(ctx context.Context, n towpath.BuildNumber, atom int) iter.Seq2[towpath.CaseInfo, error]
	History(ctx context.Context, n towpath.BuildNumber, atom, name string) iter.Seq2[towpath.PastCase, error]
	Events(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error]
	Log(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery, follow bool) iter.Seq2[towpath.LogPiece, error]
}

// Decider is asked for what changes builds.
type Decider interface {
	Submit(ctx context.Context, project string, s towpath.Submit) (towpath.BuildNumber, error)
	Cancel(ctx context.Context, n towpath.BuildNumber, by string) error
}

// Config is what the API is made of. All fields are needed.
type Config struct {
	Version string
	Reader  Reader
	Stream  Streamer
	Decider Decider
	Waiting func() string // why nothing can be decided just now; "" if all is well
	Log     *slog.Logger
}

// A submission may carry its whole list of atoms.
const (
	submitBytes = 256 << 20
	submitLimit = 30 * time.Second // to send it
)

type api struct{ cfg Config }

// New returns the API as a handler.
func New(c Config) http.Handler {
	mux := http.NewServeMux()
	conf := huma.DefaultConfig("Towpath", c.Version)
	conf.DocsPath = ""
	conf.CreateHooks = nil // no $schema links: answers are the documented objects and nothing else
	h := humago.New(mux, conf)
	a := &api{c}
	huma.Get(h, "/v1/health", a.health)
	huma.Get(h, "/v1/builds", a.builds)
	huma.Post(h, "/v1/builds", a.submit, func(o *huma.Operation) {
		o.MaxBodyBytes, o.BodyReadTimeout = submitBytes, submitLimit
	})
	huma.Get(h, "/v1/builds/{build}", a.build)
	huma.Get(h, "/v1/builds/{build}/job", a.job)
	huma.Post(h, "/v1/builds/{build}/cancel", a.cancel)
	huma.Get(h, "/v1/builds/{build}/atoms", a.atoms)
	huma.Get(h, "/v1/builds/{build}/attempts", a.attempts)
	huma.Get(h, "/v1/builds/{build}/cases", a.cases)
	huma.Get(h, "/v1/builds/{build}/history", a.history)
	huma.Get(h, "/v1/builds/{build}/events", a.events)
	huma.Get(h, "/v1/builds/{build}/log", a.log)
	return mux
}
