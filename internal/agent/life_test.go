package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/agent"
	"github.com/towpath/towpath/internal/executor"
	"github.com/towpath/towpath/internal/runner"
	"github.com/towpath/towpath/internal/session"
	"github.com/towpath/towpath/internal/wire"
)

// forever is an executor whose tasks end only when they are told to, after the grace.
type forever struct{ begun chan struct{} }

func (f forever) Run(ctx context.Context, t executor.Task) (executor.Result, error) {
	f.begun <- struct{}{}
	<-ctx.Done()
	grace := time.NewTimer(t.Grace)
	defer grace.Stop()
	<-grace.C
	return executor.Result{End: executor.EndCanceled, ExitCode: -1}, nil
}

func config(t *testing.T, dial func(context.Context) (net.Conn, error)) agent.Config {
	t.Helper()
	return agent.Config{
		Name: "a1", Slots: 1, Dir: t.TempDir(), Scratch: t.TempDir(), Dial: dial, Runner: runner.For,
		Executor: forever{make(chan struct{}, 9)}, Logger: slog.New(slog.DiscardHandler),
	}
}

// mute is a server's sink that, once told to, answers nothing any more.
type mute struct {
	muted chan struct{}
	hello chan towpath.SessionID
}

func (m mute) Inputs(ctx context.Context, ins []towpath.Input) []error {
	if h, ok := ins[0].(towpath.Hello); ok {
		m.hello <- h.Session
	}
	select {
	case <-m.muted:
		<-ctx.Done()
		return []error{ctx.Err()}
	default:
		return nil
	}
}

func (m mute) Logs(context.Context, []session.LogChunk) error { return nil }

func TestAnAgentEndsInBoundedTimeThoughTheServerAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := mute{make(chan struct{}), make(chan towpath.SessionID, 1)}
		hub := session.NewHub(session.Config{Sink: sink, Logger: slog.New(slog.DiscardHandler)})
		var sessions sync.WaitGroup
		sctx, stopServer := context.WithCancel(t.Context())
		cfg := config(t, func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			sessions.Go(func() { _ = hub.Serve(sctx, theirs) })
			return ours, nil
		})
		begun := make(chan struct{}, 9)
		cfg.Executor = forever{begun}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx, cfg) }()
		id := <-sink.hello
		job := &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"x"}}
		err := hub.Send(towpath.Offer{Session: id, Attempt: "a", Kind: towpath.AttemptRun, Job: job, Units: units("x")})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		close(sink.muted)
		since := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		if took := time.Since(since); took > 11*time.Second { // the grace, and the wait for acknowledgements
			t.Errorf("it took %v", took)
		}
		stopServer()
		sessions.Wait()
	})
}

func TestAServerThatOpensNoSessionIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var far []net.Conn
		dials := make(chan struct{}, 9)
		cfg := config(t, func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			far = append(far, theirs) // nobody reads it
			dials <- struct{}{}
			return ours, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx, cfg) }()
		<-dials
		<-dials
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		for _, c := range far {
			_ = c.Close()
		}
	})
}

func TestADialThatFailsForGoodEndsTheAgentAndOneThatMayWorkLaterDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		err := agent.Run(t.Context(), config(t, func(context.Context) (net.Conn, error) {
			if dials++; dials < 5 {
				return nil, towpath.Errorf(towpath.CodeUnavailable, "server is starting")
			}
			return nil, net.ErrClosed
		}))
		if !errors.Is(err, net.ErrClosed) || dials != 5 {
			t.Errorf("after %d dials it ended with %v", dials, err)
		}
		err = agent.Run(t.Context(), config(t, func(context.Context) (net.Conn, error) {
			return nil, towpath.Errorf(towpath.CodeCanceled, "the server is stopping")
		}))
		if err != nil {
			t.Errorf("with a server that stops it ended with %v", err)
		}
	})
}

// refuse is a server that refuses the session.
func refuse(ctx context.Context, conn net.Conn, code towpath.Code) error {
	client, hangUp, err := wire.Client(ctx, conn, 0)
	if err != nil {
		return err
	}
	defer func() { _ = hangUp() }()
	stream := client.Session(ctx)
	if err := stream.Send(nil); err != nil {
		return err
	}
	if _, err := stream.Receive(); err != nil {
		return err
	}
	r := &wire.Refusal{Code: string(code), Message: "agent a1 speaks protocol 1: upgrade the agent"}
	if err := stream.Send(&wire.Downs{Downs: []*wire.Down{{Body: &wire.Down_Refusal{Refusal: r}}}}); err != nil {
		return err
	}
	_, err = stream.Receive()
	return err
}

func TestARefusedAgentSaysWhy(t *testing.T) {
	t.Parallel()
	for _, code := range []towpath.Code{towpath.CodeConflict, towpath.CodeSessionLost} {
		synctest.Test(t, func(t *testing.T) {
			refused := make(chan error, 1)
			cfg := config(t, func(ctx context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { refused <- refuse(context.WithoutCancel(ctx), theirs, code) }()
				return ours, nil
			})
			cfg.ExitOnLost = true
			err := agent.Run(t.Context(), cfg)
			if towpath.CodeOf(err) != code || err.Error() != "agent a1 speaks protocol 1: upgrade the agent" {
				t.Errorf("%s: it ended with %v", code, err)
			}
			if err := <-refused; err == nil {
				t.Error("the agent did not hang up")
			}
		})
	}
}
