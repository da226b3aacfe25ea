package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill gives every field of v, however deep, a value of its own that is not zero.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n)
		fill(t, value, n)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
			return
		}
		for _, field := range v.Fields() {
			fill(t, field, n)
		}
	default:
		t.Fatalf("fill does not know %s", v.Type())
	}
}

func filled[T any](t *testing.T) (v T) {
	t.Helper()
	n := 0
	fill(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

// over sends m over the wire, as far as its bytes go.
func over[M proto.Message](t *testing.T, m, into M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func takeAll(t *testing.T, in towpath.Input, session towpath.SessionID) (got towpath.Input, messages int) {
	t.Helper()
	ups, err := wire.FromInput(in)
	if err != nil {
		t.Fatal(err)
	}
	ins := wire.Inputs{Session: session}
	for i, u := range ups {
		got = ins.Take(over(t, u, new(wire.Up)))
		if (got != nil) != (i == len(ups)-1) {
			t.Fatalf("message %d of %d gave %v", i+1, len(ups), got)
		}
	}
	return got, len(ups)
}

func TestNoFieldOfAnInputIsForgotten(t *testing.T) {
	t.Parallel()
	listed := filled[towpath.Done](t)
	listed.Estimates = nil // added by the server
	for _, in := range []towpath.Input{
		filled[towpath.Hello](t), filled[towpath.Drain](t), filled[towpath.Goodbye](t), filled[towpath.Started](t),
		filled[towpath.AtomBegan](t), filled[towpath.AtomDone](t), filled[towpath.Recalled](t), listed,
	} {
		session := towpath.SessionID(reflect.ValueOf(in).FieldByName("Session").String())
		got, _ := takeAll(t, in, session)
		if diff := cmp.Diff(in, got); diff != "" {
			t.Errorf("%T (-sent +received):\n%s", in, diff)
		}
	}
}

func TestNoFieldOfACommandIsForgotten(t *testing.T) {
	t.Parallel()
	for _, cmd := range []towpath.Command{
		filled[towpath.Offer](t), filled[towpath.Stop](t), filled[towpath.Recall](t),
	} {
		out, in := wire.Offers{}, wire.Commands{Session: towpath.SessionID(reflect.ValueOf(cmd).FieldByName("Session").String())}
		d, err := out.FromCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		got, err := in.Take(over(t, d, new(wire.Down)))
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := cmd.(towpath.Offer); ok {
			job := *o.Job
			job.Atoms.List = nil // nobody needs it, and it may be long
			o.Job = &job
			cmd = o
		}
		if diff := cmp.Diff(cmd, got); diff != "" {
			t.Errorf("%T (-sent +received):\n%s", cmd, diff)
		}
	}
}

func TestOffersOfOneBuildShareOneJob(t *testing.T) {
	t.Parallel()
	var out wire.Offers
	var in wire.Commands
	var jobs []*towpath.Job
	a, b := &towpath.Job{Name: "a"}, &towpath.Job{Name: "b"}
	for _, job := range []*towpath.Job{a, a, b} {
		d, err := out.FromCommand(towpath.Offer{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		cmd, err := in.Take(over(t, d, new(wire.Down)))
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, cmd.(towpath.Offer).Job) //nolint:errcheck // a panic fails the test too
	}
	if jobs[0] != jobs[1] || jobs[1] == jobs[2] || jobs[2].Name != "b" {
		t.Errorf("the jobs are %v", jobs)
	}
}

func TestWhatIsLargeTravelsInSeveralMessages(t *testing.T) {
	t.Parallel()
	in := towpath.AtomDone{Attempt: "a", Atom: 3, Report: towpath.AtomReport{Outcome: towpath.OutcomeFailed}}
	for i := range 300 {
		in.Report.Cases = append(in.Report.Cases, towpath.Case{Name: fmt.Sprint(i), Detail: strings.Repeat("x", 10<<10)})
	}
	got, n := takeAll(t, in, "")
	if diff := cmp.Diff(towpath.Input(in), got); diff != "" || n < 2 {
		t.Errorf("%d messages; (-sent +received):\n%s", n, diff)
	}
	list := towpath.Done{Attempt: "b", Outcome: towpath.OutcomePassed}
	for i := range 60_000 {
		list.Atoms = append(list.Atoms, fmt.Sprintf("package/%d", i))
	}
	got, n = takeAll(t, list, "")
	if diff := cmp.Diff(towpath.Input(list), got); diff != "" || n < 2 {
		t.Errorf("%d messages; (-sent +received):\n%s", n, diff)
	}
}

func TestTextThatIsNotUTF8IsCarriedReadably(t *testing.T) {
	t.Parallel()
	in := towpath.AtomDone{Report: towpath.AtomReport{
		Reason: "a\xffb", Failed: []string{"ok", "c\xfe"}, Cases: []towpath.Case{{Name: "\xff", Detail: "d\xff"}},
	}}
	got, _ := takeAll(t, in, "")
	r := got.(towpath.AtomDone).Report //nolint:errcheck // a panic fails the test too
	if r.Reason != "a\uFFFDb" || r.Failed[1] != "c\uFFFD" || r.Cases[0].Detail != "d\uFFFD" {
		t.Errorf("received %+v", r)
	}
}

func TestAnotherProtocolIsRefusedWithWhatToUpgrade(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[int64]string{0: "upgrade the agent", wire.Protocol: "", wire.Protocol + 1: "upgrade the server"} {
		err := wire.CheckProtocol(&wire.Hello{Protocol: protocol, Agent: "a", Version: "v1"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("protocol %d: %v, want %q", protocol, err, want)
		}
	}
}

type echo struct{}

func (echo) Session(_ context.Context, s *connect.BidiStream[wire.Downs, wire.Ups]) error {
	for {
		if _, err := s.Receive(); err != nil {
			return err
		}
		if err := s.Send(&wire.Ups{}); err != nil {
			return err
		}
	}
}

func TestServingEndsWithItsContextAndWithItsConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel func(), hangUp func() error){
		"context":    func(cancel func(), _ func() error) { cancel() },
		"connection": func(_ func(), hangUp func() error) { _ = hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ours, theirs := net.Pipe()
				served := make(chan error, 1)
				go func() { served <- wire.Serve(ctx, theirs, echo{}) }()
				client, hangUp, err := wire.Client(t.Context(), ours, 0)
				if err != nil {
					t.Fatal(err)
				}
				stream := client.Session(t.Context())
				if err := stream.Send(&wire.Downs{}); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Receive(); err != nil {
					t.Fatal(err)
				}
				end(cancel, hangUp)
				if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("serving ended with %v", err)
				}
				if _, err := stream.Receive(); err == nil {
					t.Error("the stream outlived its connection")
				}
				_ = hangUp()
			})
		})
	}
}

func TestServingWithAnEndedContextReturns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, theirs := net.Pipe()
	if err := wire.Serve(ctx, theirs, echo{}); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
