package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/session"
	"github.com/towpath/towpath/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink records what it accepts. Its answers may be set per input.
type sink struct {
	mu     sync.Mutex
	inputs []towpath.Input
	logs   []session.LogChunk
	order  []string
	answer func(ctx context.Context, in towpath.Input) error
}

func (k *sink) Inputs(ctx context.Context, ins []towpath.Input) []error {
	errs := make([]error, len(ins))
	for i, in := range ins {
		if k.answer != nil {
			errs[i] = k.answer(ctx, in)
		}
		if errs[i] == nil {
			k.mu.Lock()
			k.inputs = append(k.inputs, in)
			k.order = append(k.order, fmt.Sprintf("%T", in))
			k.mu.Unlock()
		}
	}
	return errs
}

func (k *sink) Logs(_ context.Context, chunks []session.LogChunk) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logs = append(k.logs, chunks...)
	k.order = append(k.order, "logs")
	return nil
}

func of[T towpath.Input](k *sink) (found []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, in := range k.inputs {
		if in, ok := in.(T); ok {
			found = append(found, in)
		}
	}
	return found
}

// far is the agent's end of a session: the real protocol on a connection in memory, in the hands of the test.
type far struct {
	t      *testing.T
	stream *connect.BidiStream[wire.Downs, wire.Ups]
	conn   *gate
	end    context.CancelFunc
	served chan error // the agent's side
	result chan error // Hub.Serve
	number uint64
}

type handler chan *connect.BidiStream[wire.Downs, wire.Ups]

func (h handler) Session(ctx context.Context, s *connect.BidiStream[wire.Downs, wire.Ups]) error {
	h <- s
	<-ctx.Done()
	return nil
}

// gate is a connection whose reader can be frozen.
type gate struct {
	net.Conn
	frozen chan struct{} // nil, or closed when it thaws

	mu sync.Mutex
}

func (g *gate) freeze() (thaw func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	g.frozen = c
	return func() { close(c) }
}

func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	c := g.frozen
	g.mu.Unlock()
	if c != nil {
		<-c
	}
	return g.Conn.Read(p)
}

// join connects an agent that has said nothing yet.
func join(t *testing.T, hub *session.Hub) *far {
	t.Helper()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	f := &far{t: t, conn: &gate{Conn: theirs}, end: cancel, served: make(chan error, 1), result: make(chan error, 1)}
	streams := make(handler, 1)
	go func() { f.served <- wire.Serve(ctx, f.conn, streams) }()
	go func() { f.result <- hub.Serve(t.Context(), ours) }()
	f.stream = <-streams
	return f
}

func (f *far) say(ups ...*wire.Up) {
	f.t.Helper()
	for _, u := range ups {
		if u.GetHello() == nil && u.GetBeat() == nil && u.GetNumber() == 0 {
			f.number++
			u.Number = f.number
		}
	}
	if err := f.stream.Send(&wire.Ups{Ups: ups}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *far) input(ins ...towpath.Input) {
	f.t.Helper()
	for _, in := range ins {
		ups, err := wire.FromInput(in)
		if err != nil {
			f.t.Fatal(err)
		}
		f.say(ups...)
	}
}

// hear returns the next messages from the server.
func (f *far) hear() []*wire.Down {
	f.t.Helper()
	m, err := f.stream.Receive()
	if err != nil {
		f.t.Fatal(err)
	}
	return m.GetDowns()
}

// open says hello and returns the session's id.
func (f *far) open(name string) towpath.SessionID {
	f.t.Helper()
	f.input(towpath.Hello{Agent: name, Slots: 2})
	downs := f.hear()
	if len(downs) != 1 || downs[0].GetWelcome() == nil {
		f.t.Fatalf("the answer to hello is %v", downs)
	}
	return towpath.SessionID(downs[0].GetWelcome().GetSession())
}

// leave hangs up and returns what the server's side said of the session.
func (f *far) leave() error {
	f.end()
	<-f.served //nolint:errcheck // that it ended is enough
	return <-f.result
}

func newHub(k *sink, change func(*session.Config)) *session.Hub {
	cfg := session.Config{Sink: k, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	return session.NewHub(cfg)
}

func TestMessagesAreAcknowledgedOnceTheSinkHasThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := 3
		k := &sink{answer: func(_ context.Context, in towpath.Input) error {
			if _, ok := in.(towpath.AtomDone); ok && full > 0 {
				full--
				return towpath.Errorf(towpath.CodeUnavailable, "disk full")
			}
			return nil
		}}
		f := join(t, newHub(k, nil))
		f.open("a")
		f.say(&wire.Up{Body: &wire.Up_Log{Log: &wire.Log{Attempt: "x", Unit: -1, Offset: 5, Gap: 2, Data: []byte("text")}}},
			&wire.Up{Body: &wire.Up_AtomDone{AtomDone: &wire.AtomDone{Attempt: "x", Atom: 4}}})
		begun := time.Now()
		downs := f.hear()
		if len(downs) != 1 || downs[0].GetAck().GetNumber() != 2 {
			t.Errorf("heard %v, want an acknowledgement of 2", downs)
		}
		if took := time.Since(begun); took < 50*time.Millisecond {
			t.Errorf("it came after %v, while the sink was unavailable", took)
		}
		if got := of[towpath.AtomDone](k); len(got) != 1 || got[0].Atom != 4 {
			t.Errorf("the sink has %+v", got)
		}
		if len(k.logs) != 1 || string(k.logs[0].Data) != "text" || k.logs[0].Offset != 5 || k.logs[0].Gap != 2 || k.logs[0].Unit != -1 {
			t.Errorf("the sink has logs %+v", k.logs)
		}
		// Said again, it is not told again.
		f.say(&wire.Up{Number: 2, Body: &wire.Up_AtomDone{AtomDone: &wire.AtomDone{Attempt: "x", Atom: 4}}})
		f.input(towpath.Goodbye{Reason: "enough"})
		if downs := f.hear(); downs[0].GetAck().GetNumber() != 3 {
			t.Errorf("heard %v, want an acknowledgement of 3", downs)
		}
		if err := f.leave(); err != nil {
			t.Errorf("a session that said goodbye ended with %v", err)
		}
		if got := of[towpath.AtomDone](k); len(got) != 1 {
			t.Errorf("a repeated message was told again: %+v", got)
		}
		if got := of[towpath.Goodbye](k); len(got) != 1 || got[0].Reason != "enough" {
			t.Errorf("the sink has goodbyes %+v", got)
		}
	})
}

func TestALostSessionIsToldWhyAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{answer: func(_ context.Context, in towpath.Input) error {
			if _, ok := in.(towpath.Hello); !ok {
				return towpath.Errorf(towpath.CodeSessionLost, "not heard from for 15s")
			}
			return nil
		}}
		hub := newHub(k, nil)
		f := join(t, hub)
		id := f.open("a")
		f.input(towpath.Done{Attempt: "x", Outcome: towpath.OutcomePassed})
		downs := f.hear()
		r := downs[len(downs)-1].GetRefusal()
		if r.GetCode() != string(towpath.CodeSessionLost) || r.GetMessage() != "not heard from for 15s" {
			t.Errorf("heard %v", downs)
		}
		if err := f.leave(); err != nil {
			t.Errorf("the session ended with %v", err)
		}
		if got := of[towpath.Goodbye](k); len(got) != 0 {
			t.Errorf("a lost session said %+v", got)
		}
		if err := hub.Send(towpath.Stop{Session: id}); towpath.CodeOf(err) != towpath.CodeSessionLost {
			t.Errorf("sending to it gives %v", err)
		}
	})
}

func TestASessionDeclaredLostByTheServerIsToldWhyThoughItIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{}
		hub := newHub(k, nil)
		f := join(t, hub)
		id := f.open("a")
		hub.Refuse(id, "not heard from for 15s")
		if r := f.hear()[0].GetRefusal(); r.GetMessage() != "not heard from for 15s" {
			t.Errorf("heard %v", r)
		}
		// It does not hang up by itself; the server does.
		if err := <-f.result; err != nil {
			t.Errorf("the session ended with %v", err)
		}
		<-f.served //nolint:errcheck // that it ended is enough
	})
}

func TestAHungAgentDelaysNobodyAndIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{}
		hub := newHub(k, func(c *session.Config) { c.WriteLimit = 7 * time.Second })
		hung, well := join(t, hub), join(t, hub)
		hungID, wellID := hung.open("hung"), well.open("well")
		thaw := hung.conn.freeze()
		begun := time.Now()
		job := &towpath.Job{Name: "j"}
		for i := range 20 {
			n := towpath.AttemptID(fmt.Sprint(i))
			if err := hub.Send(towpath.Offer{Session: hungID, Attempt: n, Job: job}); err != nil {
				t.Fatal(err)
			}
			if err := hub.Send(towpath.Offer{Session: wellID, Attempt: n, Job: job}); err != nil {
				t.Fatal(err)
			}
			if o := well.hear()[0].GetOffer(); o.GetAttempt() != string(n) {
				t.Errorf("heard %v, want offer %s", o, n)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("the offers of the other took %v", took)
		}
		err := <-hung.result
		if err == nil || !strings.Contains(err.Error(), "took nothing for 7s") {
			t.Errorf("the hung session ended with %v", err)
		}
		if took := time.Since(begun); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("it was cut after %v", took)
		}
		if got := of[towpath.Goodbye](k); len(got) != 1 || got[0].Session != hungID || !strings.Contains(got[0].Reason, "took nothing") {
			t.Errorf("the sink has goodbyes %+v", got)
		}
		thaw()
		hung.end()
		<-hung.served //nolint:errcheck // that it ended is enough
		if err := well.leave(); err == nil || !strings.Contains(err.Error(), "hung up") {
			t.Errorf("the other ended with %v", err)
		}
	})
}

func TestASessionWithAFullMailboxIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(&sink{}, func(c *session.Config) { c.Mailbox = 3 })
		f := join(t, hub)
		id := f.open("a")
		thaw := f.conn.freeze()
		var err error
		for range 20 {
			if err == nil {
				err = hub.Send(towpath.Stop{Session: id, Attempt: "x", Reason: strings.Repeat("y", 1<<20)})
				synctest.Wait()
			}
		}
		if towpath.CodeOf(err) != towpath.CodeSessionLost {
			t.Errorf("sending without end gives %v", err)
		}
		if err := <-f.result; err == nil || !strings.Contains(err.Error(), "took none of 3 commands") {
			t.Errorf("the session ended with %v", err)
		}
		thaw()
		f.end()
		<-f.served //nolint:errcheck // that it ended is enough
	})
}

func TestBeatsAreAnsweredWhileTheSinkIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		k := &sink{answer: func(ctx context.Context, in towpath.Input) error {
			if _, ok := in.(towpath.Done); ok {
				select {
				case <-stuck:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}}
		f := join(t, newHub(k, nil))
		f.open("a")
		f.input(towpath.Done{Attempt: "x"})
		synctest.Wait()
		for i := range int64(3) {
			f.say(&wire.Up{Body: &wire.Up_Beat{Beat: &wire.Beat{StampNs: i}}})
			if e := f.hear()[0].GetEcho(); e == nil || e.GetStampNs() != i {
				t.Errorf("heard %v, want the echo of %d", e, i)
			}
		}
		synctest.Wait()
		if got := of[towpath.Beat](k); len(got) != 3 {
			t.Errorf("the sink heard %d beats, want 3", len(got))
		}
		close(stuck)
		if n := f.hear()[0].GetAck().GetNumber(); n != 1 {
			t.Errorf("acknowledged %d, want 1", n)
		}
		_ = f.leave()
	})
}

func TestLogsAreStoredBeforeTheReportThatCameWithThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{}
		f := join(t, newHub(k, nil))
		f.open("a")
		log := func() *wire.Up { return &wire.Up{Body: &wire.Up_Log{Log: &wire.Log{Attempt: "x"}}} }
		f.say(log(), &wire.Up{Body: &wire.Up_Started{Started: &wire.Started{Attempt: "x"}}}, log(),
			&wire.Up{Body: &wire.Up_Done{Done: &wire.Done{Attempt: "x"}}})
		f.hear()
		if got, want := strings.Join(k.order[1:], " "), "logs towpath.Started towpath.Done"; got != want || len(k.logs) != 2 {
			t.Errorf("stored in order %q, want %q", got, want)
		}
		_ = f.leave()
	})
}

func TestAnAttemptThatBeganTooLateIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{answer: func(_ context.Context, in towpath.Input) error {
			if _, ok := in.(towpath.Started); ok {
				return towpath.Errorf(towpath.CodeConflict, "it was not begun in time")
			}
			return nil
		}}
		f := join(t, newHub(k, nil))
		f.open("a")
		f.input(towpath.Started{Attempt: "x"})
		var stop *wire.Stop
		for stop == nil { // the acknowledgement may come before it
			for _, d := range f.hear() {
				if d.GetStop() != nil {
					stop = d.GetStop()
				}
			}
		}
		if stop.GetAttempt() != "x" || stop.GetReason() != "it was not begun in time" {
			t.Errorf("heard %v", stop)
		}
		_ = f.leave()
	})
}

func TestADroppedConnectionIsSaidToTheSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{}
		f := join(t, newHub(k, nil))
		id := f.open("a")
		if err := f.leave(); err == nil {
			t.Error("a connection that dropped is no error")
		}
		if got := of[towpath.Goodbye](k); len(got) != 1 || got[0].Session != id || !strings.Contains(got[0].Reason, "hung up") {
			t.Errorf("the sink has goodbyes %+v", got)
		}
	})
}

func TestAnAgentThatSaysNoProperHelloGetsNoSession(t *testing.T) {
	t.Parallel()
	hello := func(h *wire.Hello) *wire.Up { return &wire.Up{Body: &wire.Up_Hello{Hello: h}} }
	for name, c := range map[string]struct {
		first *wire.Up
		want  string
	}{
		"silent":       {nil, "no hello within 10s"},
		"beat first":   {&wire.Up{Body: &wire.Up_Beat{Beat: &wire.Beat{}}}, "no hello"},
		"old protocol": {hello(&wire.Hello{Agent: "a", Slots: 1}), "upgrade the agent"},
		"no slots":     {hello(&wire.Hello{Agent: "a", Protocol: wire.Protocol}), "no slots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := &sink{}
				f := join(t, newHub(k, nil))
				if c.first != nil {
					f.say(c.first)
					if r := f.hear()[0].GetRefusal(); !strings.Contains(r.GetMessage(), c.want) {
						t.Errorf("heard %v, want %q", r, c.want)
					}
				}
				if err := <-f.result; err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the session ended with %v, want %q", err, c.want)
				}
				f.end()
				<-f.served //nolint:errcheck // that it ended is enough
				if len(k.inputs) != 0 {
					t.Errorf("the sink has %v", k.inputs)
				}
			})
		})
	}
}

func TestTheServersEndIsNoGoodbye(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &sink{}
		hub := newHub(k, nil)
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		f := &far{t: t, served: make(chan error, 1)}
		streams := make(handler, 1)
		go func() { f.served <- wire.Serve(t.Context(), theirs, streams) }()
		result := make(chan error, 1)
		go func() { result <- hub.Serve(ctx, ours) }()
		f.stream = <-streams
		f.open("a")
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		<-f.served //nolint:errcheck // that it ended is enough
		if got := of[towpath.Goodbye](k); len(got) != 0 {
			t.Errorf("the sink has goodbyes %+v", got)
		}
	})
}
