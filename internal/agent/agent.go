// Package agent runs attempts on this host. Run connects to a Towpath server, takes the offers of its session, runs them
// through an executor with what their runner needs, and reports results and logs until they are acknowledged. Package cli
// and, in one process, package server call it. It decides nothing about builds, has no database, and starts no process
// itself.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
	"github.com/towpath/towpath/internal/runner"
)

// Config is what an agent needs. Fields say their default; those that say none must be set.
type Config struct {
	Name   string
	Slots  int
	Labels []string
	Dir    string   // the workspace, an absolute path; attempts run in it
	Env    []string // the environment that attempts start from

	// Dial makes a connection to the Towpath server. An error of CodeUnavailable is tried again, any other ends Run;
	// CodeCanceled, of a server that stops, is no error of Run.
	Dial     func(ctx context.Context) (net.Conn, error)
	Executor executor.Executor
	Logger   *slog.Logger

	Class      string // as towpath.Hello.Class; ""
	Version    string // of the program, for people; ""
	Scratch    string // a directory for temporary files; a new one below the system's
	ExitOnLost bool   // leave when a session was declared lost; false: join again as a new one

	// Runner finds the runner of a kind.
	Runner func(towpath.ReportKind) (runner.Runner, error)

	BeatEvery  time.Duration // how often the agent says that it lives; 3 s
	FlushLimit time.Duration // how long the end waits for acknowledgements; 5 s
	Grace      time.Duration // from asking a process to end to killing it; 5 s
	LogHead    int64         // bytes of a log that are sent as they come; 10 MiB
	LogTail    int           // bytes of the end of a longer one; 1 MiB
	LogWindow  int64         // bytes of logs that may wait to be acknowledged; 16 MiB
	ListLimit  int           // bytes that a list of atoms may have; 32 MiB
}

func (c Config) withDefaults() Config {
	defaultTo(&c.BeatEvery, 3*time.Second)
	defaultTo(&c.FlushLimit, 5*time.Second)
	defaultTo(&c.Grace, 5*time.Second)
	defaultTo(&c.LogHead, 10<<20)
	defaultTo(&c.LogTail, 1<<20)
	defaultTo(&c.LogWindow, 16<<20)
	defaultTo(&c.ListLimit, 32<<20)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Name == "":
		return errors.New("agent: Config.Name is empty")
	case c.Slots < 1:
		return errors.New("agent: Config.Slots is below 1")
	case !filepath.IsAbs(c.Dir):
		return errors.New("agent: Config.Dir is no absolute path")
	case c.Dial == nil, c.Executor == nil, c.Logger == nil, c.Runner == nil:
		return errors.New("agent: Config.Dial, Executor, Runner or Logger is not set")
	}
	return nil
}

// Waits before an agent connects again.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
)

// Run is an agent: it holds one session after another until ctx ends, the server asks it to leave, or, with ExitOnLost,
// its session is lost. It returns when all its attempts have ended and their processes are gone.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(cfg.Scratch, "towpath-agent-")
	if err != nil {
		return fmt.Errorf("make the agent's scratch directory: %w", err)
	}
	defer func() {
		if rmErr := removeAll(scratch); rmErr != nil {
			cfg.Logger.Warn("scratch directory left behind", "dir", scratch, "err", rmErr)
		}
	}()
	cfg.Scratch = scratch
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		conn, err := cfg.Dial(ctx)
		if err == nil {
			opened := time.Now()
			err = serve(ctx, cfg, conn)
			if time.Since(opened) > lastWait {
				wait = firstWait
			}
		} else if code := towpath.CodeOf(err); ctx.Err() == nil && code != towpath.CodeUnavailable && code != towpath.CodeCanceled {
			return fmt.Errorf("connect to the server: %w", err)
		}
		switch {
		case ctx.Err() != nil, errors.Is(err, errDrained), towpath.CodeOf(err) == towpath.CodeCanceled:
			return nil
		case towpath.CodeOf(err) == towpath.CodeSessionLost && !cfg.ExitOnLost:
			cfg.Logger.Warn("session lost", "err", err)
		case towpath.CodeOf(err) == towpath.CodeUnavailable, errors.Is(err, errHungUp):
			cfg.Logger.Warn("server not reached", "err", err)
		default:
			return err
		}
		t := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

func defaultTo[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
