// Package server is the control plane put together: the store, the dispatch loop, the sessions of agents and the API. In
// this process it serves `towpath run`; other shells reach it by a Unix socket in the state directory. It executes
// nothing itself.
package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/dispatch"
	"github.com/towpath/towpath/internal/httpapi"
	"github.com/towpath/towpath/internal/session"
	"github.com/towpath/towpath/internal/store"
)

// Config is what a server needs. StateDir and Logger must be set.
type Config struct {
	StateDir   string
	Version    string
	Logger     *slog.Logger
	KeepBuilds int           // newest finished builds that are kept whatever their age; 0 with KeepAge 0: all
	KeepAge    time.Duration // for how long every finished build is kept
}

// stopLimit is how long each stage of the end may take.
const stopLimit = 10 * time.Second

// Server is a control plane over one state directory.
type Server struct {
	cfg    Config
	db     *store.DB
	owner  *ownership
	loop   *dispatch.Loop
	hub    *session.Hub
	api    *http.Server
	memory *memory // the API's connections within this process
	socket net.Listener
	agents *memory // connections of agents within this process
}

// Open opens the state directory, takes an ownership in it, and settles the builds of owners that are gone. Run must
// follow, or Close.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	db, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	owner, err := own(cfg.StateDir, time.Now())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &Server{cfg: cfg, db: db, owner: owner, memory: newMemory(), agents: newMemory()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, owner.release(), db.Close())
	}
	return s, nil
}

func openStore(ctx context.Context, cfg Config) (*store.DB, error) {
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, stateError(cfg.StateDir, err)
	}
	return store.Open(ctx, store.Options{Path: filepath.Join(cfg.StateDir, "towpath.db"), Logger: cfg.Logger})
}

func (s *Server) open(ctx context.Context) error {
	if err := s.db.RegisterOwner(ctx, s.owner.Owner); err != nil {
		return err
	}
	if err := settleOrphans(ctx, s.db, s.cfg.StateDir); err != nil {
		return err
	}
	s.hub = session.NewHub(session.Config{Sink: sink{s}, Logger: s.cfg.Logger})
	s.loop = dispatch.New(dispatch.Config{Owner: s.owner.ID, Store: s.db, Sessions: s.hub, Logger: s.cfg.Logger})
	b := builds{db: s.db, live: s.loop}
	s.api = &http.Server{
		Handler: httpapi.New(httpapi.Config{
			Version: s.cfg.Version, Reader: s.db, Stream: b, Decider: s.loop, Waiting: s.loop.Trouble, Log: s.cfg.Logger,
		}),
		ReadHeaderTimeout: stopLimit,
	}
	var err error
	s.socket, err = (&net.ListenConfig{}).Listen(ctx, "unix", s.owner.Socket)
	if err != nil {
		return stateError(s.cfg.StateDir, fmt.Errorf("listen on its socket: %w", err))
	}
	return nil
}

// settleOrphans ends the builds of owners that are gone.
func settleOrphans(ctx context.Context, db *store.DB, stateDir string) error {
	orphans, err := db.Orphans(ctx, func(o towpath.Owner) bool { return alive(stateDir, o) })
	if err != nil {
		return err
	}
	for _, o := range orphans {
		reason := fmt.Sprintf("the towpath process that ran it (pid %d) is gone", o.Owner.PID)
		if err := db.MarkErrored(ctx, o.Build, time.Now(), reason); err != nil {
			return err
		}
	}
	return nil
}

// Scratch is a directory for temporary files. Close removes it, or when this process is killed, a later server.
func (s *Server) Scratch() string { return s.owner.scratch }

// Client returns a client of this server's API that needs no network.
func (s *Server) Client() *client.Client { return client.New("http://towpath", s.memory.transport()) }

// Settled waits until a build of this server has ended and nothing of it runs any more, its teardowns included.
func (s *Server) Settled(ctx context.Context, n towpath.BuildNumber) error {
	return s.loop.Settled(ctx, n)
}

// Dial connects an agent in this process.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	c, err := s.agents.dial(ctx)
	if errors.Is(err, net.ErrClosed) {
		return nil, towpath.Errorf(towpath.CodeCanceled, "the server is stopping")
	}
	return c, err
}

// Run serves until ctx ends, then stops in stages: the API, the sessions, the dispatch loop. It returns when all that it
// started has ended.
func (s *Server) Run(ctx context.Context) error {
	life := context.WithoutCancel(ctx)
	looping, stopLoop := context.WithCancel(life)
	defer stopLoop()
	serving, stopSessions := context.WithCancelCause(ctx)
	defer stopSessions(nil)

	var loop, edge errgroup.Group
	loop.Go(func() error {
		err := s.loop.Run(looping)
		stopSessions(err)
		return ended(err)
	})
	edge.Go(func() error { return ended(s.api.Serve(s.memory)) })
	edge.Go(func() error { return ended(s.api.Serve(s.socket)) })
	edge.Go(func() error { return s.serveAgents(serving) })
	edge.Go(func() error { s.tidy(serving); return nil })
	edge.Go(func() error {
		<-serving.Done() // ends with ctx, or with the loop
		stopping, cancel := context.WithTimeout(life, stopLimit)
		defer cancel()
		err := s.api.Shutdown(stopping)
		if err != nil {
			err = s.api.Close() // whoever follows a build that this server leaves unfinished is cut
		}
		return errors.Join(err, s.agents.Close())
	})
	err := edge.Wait()
	stopLoop()
	return errors.Join(err, loop.Wait())
}

func ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// serveAgents owns the connections of agents in this process: one goroutine each, until ctx ends.
func (s *Server) serveAgents(ctx context.Context) error {
	var sessions errgroup.Group
	defer context.AfterFunc(ctx, func() { _ = s.agents.Close() })()
	for {
		conn, err := s.agents.Accept()
		if err != nil {
			return errors.Join(ended(err), sessions.Wait())
		}
		sessions.Go(func() error {
			if err := s.hub.Serve(ctx, conn); err != nil && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "session ended", "err", err)
			}
			return nil
		})
	}
}

// tidy removes what killed owners left and forgets old builds, a little at a time, so that nobody waits for it. A server
// that does not live long enough for a beginning does a little at its end, or one that never does would never tidy.
func (s *Server) tidy(ctx context.Context) {
	pause := time.NewTimer(time.Second)
	defer pause.Stop()
	for began := false; ; began = true {
		select {
		case <-ctx.Done():
			if !began {
				s.tidySome(context.WithoutCancel(ctx), true)
			}
			return
		case <-pause.C:
		}
		if !s.tidySome(ctx, !began) {
			return
		}
		pause.Reset(100 * time.Millisecond)
	}
}

// tidySome does a bounded part of what tidy does, and says whether more is to be done. What goes wrong waits for the next
// server.
func (s *Server) tidySome(ctx context.Context, first bool) (more bool) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if first {
		if err := sweep(s.cfg.StateDir); err != nil {
			s.cfg.Logger.WarnContext(ctx, "leftovers not removed", "err", err)
		}
	}
	if s.cfg.KeepBuilds == 0 && s.cfg.KeepAge == 0 {
		return false
	}
	now := time.Now()
	since := now // 0 is no age: only the number counts
	if s.cfg.KeepAge > 0 {
		since = now.Add(-s.cfg.KeepAge)
	}
	more, err := s.db.Prune(ctx, s.cfg.KeepBuilds, since, now)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "old builds not forgotten", "err", err)
		}
		return false
	}
	return more
}

// Close gives up the ownership and closes the store. Run must have returned, or never been called.
func (s *Server) Close() error {
	return errors.Join(ended(s.socket.Close()), s.owner.release(), s.db.Close())
}

// sink takes what agents say to the dispatch loop.
type sink struct{ s *Server }

// Inputs passes inputs on and waits until what they lead to is stored.
func (k sink) Inputs(ctx context.Context, ins []towpath.Input) []error {
	return k.s.loop.Inputs(ctx, ins)
}

// Logs passes pieces of logs on and waits until they are stored.
func (k sink) Logs(ctx context.Context, chunks []session.LogChunk) error {
	if len(chunks) == 0 {
		return nil
	}
	out := make([]store.LogChunk, len(chunks))
	for i, c := range chunks {
		out[i] = store.LogChunk{Attempt: c.Attempt, Unit: c.Unit, Offset: c.Offset, Gap: c.Gap, Data: c.Data}
	}
	return k.s.loop.Logs(ctx, chunks[0].Session, out)
}

// builds answers the API's long questions from the store, and what is still to come from the loop.
type builds struct {
	db       *store.DB
	live     *dispatch.Loop // nil: builds of other processes only
	stateDir string         // where to ask for their owners
}

func (b builds) Atoms(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AtomInfo, error] {
	return b.db.Atoms(ctx, n)
}

func (b builds) Attempts(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AttemptInfo, error] {
	return b.db.Attempts(ctx, n)
}

func (b builds) Cases(ctx context.Context, n towpath.BuildNumber, atom int) iter.Seq2[towpath.CaseInfo, error] {
	return b.db.Cases(ctx, n, atom)
}

func (b builds) History(ctx context.Context, n towpath.BuildNumber, atom, name string) iter.Seq2[towpath.PastCase, error] {
	return b.db.History(ctx, n, atom, name)
}
