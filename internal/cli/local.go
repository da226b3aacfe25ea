package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/agent"
	"github.com/towpath/towpath/internal/executor/process"
	"github.com/towpath/towpath/internal/runner"
	"github.com/towpath/towpath/internal/server"
)

// local is a server and one agent in this process, and a client that reaches them.
type local struct {
	client  *client.Client
	project string
	cancel  context.CancelCauseFunc // ends the agent, then the server
	done    chan error              // takes one value: how both ended
	settled func(context.Context, towpath.BuildNumber) error
	log     *logFile
}

// windDown is how long a local server and agent get to end; the agent's own limits are shorter.
const windDown = 30 * time.Second

// startLocal starts a server and an agent in this process. Whoever starts them must stop them.
func (c *command) startLocal(ctx context.Context) (*local, error) {
	dir, project, err := c.workspace()
	if err != nil {
		return nil, err
	}
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	srv, err := server.Open(ctx, c.serverConfig(log.logger))
	if err != nil {
		return nil, errors.Join(err, log.close())
	}
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find this program: %w", err), srv.Close(), log.close())
	}
	exec, err := process.New(process.Config{Logger: log.logger, Guard: []string{self, process.GuardArg}})
	if err != nil {
		return nil, errors.Join(err, srv.Close(), log.close())
	}
	host := hostName()
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &local{client: srv.Client(), project: project, cancel: cancel, done: make(chan error, 1), settled: srv.Settled, log: log}
	agentConfig := agent.Config{
		Name: host, Class: "local", Slots: c.set.number("slots"), Labels: localLabels(host), Dir: dir, Env: os.Environ(), Version: Version,
		Dial: srv.Dial, Executor: exec, Runner: runner.For, Logger: log.logger, LogHead: int64(c.set.number("log_limit")),
		Scratch: srv.Scratch(),
	}
	go func() { l.done <- runBoth(life, srv, agentConfig, exec) }()
	return l, nil
}

// runBoth runs the server and the agent until ctx ends. The agent ends first, while there is a server to report to.
func runBoth(ctx context.Context, srv *server.Server, cfg agent.Config, exec *process.Executor) error {
	serving, stopServer := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopServer(nil)
	served := make(chan error, 1) // room for its one value
	go func() { served <- srv.Run(serving) }()
	agentLife, stopAgent := context.WithCancelCause(ctx)
	defer stopAgent(nil)
	agentDone := make(chan error, 1) // room for its one value
	go func() { agentDone <- agent.Run(agentLife, cfg) }()
	var err error
	select {
	case err = <-agentDone:
	case err = <-served:
		stopAgent(err)
		served <- nil
		err = errors.Join(err, ignoreCanceled(<-agentDone))
	}
	stopServer(context.Cause(ctx))
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), windDown)
	defer cancel()
	return errors.Join(ignoreCanceled(err), <-served, exec.Close(ending), srv.Close())
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// errStopped is why a local server and agent end when their build has.
var errStopped = errors.New("the build has ended")

// stop ends the server and the agent and waits for them, in bounded time. With abandon it does not wait: the guard of the
// executor kills what still runs when this process has gone.
func (l *local) stop(abandon bool) error {
	l.cancel(errStopped)
	if abandon {
		return nil
	}
	limit := time.NewTimer(windDown)
	defer limit.Stop()
	select {
	case err := <-l.done:
		return errors.Join(err, l.log.close())
	case <-limit.C:
		return towpath.Errorf(towpath.CodeInternal, "the local server and agent did not end within %s", windDown)
	}
}

func (c *command) serverConfig(log *slog.Logger) server.Config {
	return server.Config{
		StateDir: c.set.text("state_dir"), Version: Version, Logger: log,
		KeepBuilds: c.set.number("keep_builds"), KeepAge: time.Duration(c.set.number("keep_days")) * 24 * time.Hour,
	}
}

// workspace returns the directory that jobs run in and the name under which its durations are kept.
func (c *command) workspace() (dir, project string, err error) {
	dir, err = os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", "", towpath.Errorf(towpath.CodeConfig, "the workspace cannot be found: %w", err)
	}
	if project = c.set.text("project"); project == "" {
		project = dir
	}
	// What is said of the project is text: a path that is none must be named alike when it is stored and when it is asked for.
	return dir, strings.ToValidUTF8(project, "\ufffd"), nil
}

// reader is a client of what the state directory remembers. Cancelling through it reaches the process that owns the build.
type reader struct {
	client  *client.Client
	project string
	srv     *server.Reader
	log     *logFile
}

func (c *command) openReader(ctx context.Context) (*reader, error) {
	_, project, err := c.workspace()
	if err != nil {
		return nil, err
	}
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	srv, err := server.OpenReader(ctx, c.serverConfig(log.logger))
	if err != nil {
		return nil, errors.Join(err, log.close())
	}
	return &reader{client: srv.Client(), project: project, srv: srv, log: log}, nil
}

func (r *reader) close() error { return errors.Join(r.srv.Close(), r.log.close()) }

// logFile is Towpath's own log in the state directory.
type logFile struct {
	logger *slog.Logger
	file   *os.File
}

// maxLogFile is the size in bytes at which a log file is begun anew; one older one is kept.
const maxLogFile = 10 << 20

func (c *command) openLog() (*logFile, error) {
	dir := c.set.text("state_dir")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, towpath.Errorf(towpath.CodeUnavailable, "the state directory %s cannot be made: %w; name another with --state-dir", dir, err)
	}
	path := filepath.Join(dir, "towpath.log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogFile {
		_ = os.Rename(path, path+".1") // another process may have done it first
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the user names the directory
	if err != nil {
		return nil, towpath.Errorf(towpath.CodeUnavailable, "the state directory %s cannot be written: %w; make it writable for this user, or name another with --state-dir", dir, err)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.set.text("log_level"))); err != nil {
		return nil, errors.Join(fmt.Errorf("log level: %w", err), f.Close())
	}
	return &logFile{slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level})), f}, nil
}

func (l *logFile) close() error { return l.file.Close() }
