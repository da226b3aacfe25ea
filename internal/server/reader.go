package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/httpapi"
	"github.com/towpath/towpath/internal/store"
)

// Reader serves what a state directory remembers to commands of this process, without owning builds. What it is asked to
// change it passes on to the process that owns the build.
type Reader struct {
	db     *store.DB
	memory *memory
	api    *http.Server
	served chan error // takes one value
}

// OpenReader opens a state directory and settles the builds of owners that are gone. Close must follow.
func OpenReader(ctx context.Context, cfg Config) (*Reader, error) {
	db, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := settleOrphans(ctx, db, cfg.StateDir); err != nil { // as on a full disk; what is there can be read all the same
		cfg.Logger.WarnContext(ctx, "builds of dead owners not settled", "err", err)
	}
	r := &Reader{db: db, memory: newMemory(), served: make(chan error, 1)}
	r.api = &http.Server{
		Handler: httpapi.New(httpapi.Config{
			Version: cfg.Version, Reader: db, Stream: builds{db: db, stateDir: cfg.StateDir}, Decider: forwarder{db, cfg.StateDir},
			Waiting: func() string { return "" }, Log: cfg.Logger,
		}),
		ReadHeaderTimeout: stopLimit,
	}
	go func() { r.served <- ended(r.api.Serve(r.memory)) }()
	return r, nil
}

// Client returns a client of the reader's API that needs no network.
func (r *Reader) Client() *client.Client { return client.New("http://towpath", r.memory.transport()) }

// Close cuts whoever still reads and closes the store.
func (r *Reader) Close() error {
	return errors.Join(r.api.Close(), <-r.served, r.db.Close())
}

// forwarder passes what changes a build on to its owner.
type forwarder struct {
	db       *store.DB
	stateDir string
}

// Submit refuses: a build needs an owner that runs it.
func (f forwarder) Submit(context.Context, string, towpath.Submit) (towpath.BuildNumber, error) {
	return 0, towpath.Errorf(towpath.CodeUnavailable, "no server runs here: `towpath run` starts a build")
}

// Cancel asks the owner of the build.
func (f forwarder) Cancel(ctx context.Context, n towpath.BuildNumber, by string) error {
	b, err := f.db.Build(ctx, n)
	if err != nil {
		return err
	}
	if b.State.Final() {
		return towpath.Errorf(towpath.CodeConflict, "build %d is over: it is %s", n, b.State)
	}
	if alive(f.stateDir, b.Owner) {
		return client.Unix(b.Owner.Socket).Cancel(ctx, n, by)
	}
	if err := settleOrphans(ctx, f.db, f.stateDir); err != nil {
		return err
	}
	return towpath.Errorf(towpath.CodeConflict, "build %d has ended: the towpath process that ran it is gone", n)
}
