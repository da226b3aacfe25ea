package httpapi_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/httpapi"
)

// yard answers as a store and a decider of one build, number 1, of which the atoms break off.
type yard struct {
	httpapi.Streamer
	submitted towpath.Submit
}

var errBroken = errors.New("the disk has a secret")

func (*yard) Builds(context.Context, towpath.BuildFilter) ([]towpath.BuildInfo, error) {
	return nil, errBroken
}

func (*yard) Build(_ context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error) {
	if n != 1 {
		return towpath.BuildInfo{}, towpath.Errorf(towpath.CodeNotFound, "there is no build %d", n)
	}
	return towpath.BuildInfo{Number: 1}, nil
}

func (*yard) Job(context.Context, towpath.BuildNumber) (towpath.Job, error) {
	return towpath.Job{Name: "tow"}, nil
}

func (*yard) Atoms(context.Context, towpath.BuildNumber) iter.Seq2[towpath.AtomInfo, error] {
	return func(yield func(towpath.AtomInfo, error) bool) {
		_ = yield(towpath.AtomInfo{Name: "a"}, nil) && yield(towpath.AtomInfo{}, errBroken)
	}
}

func (y *yard) Submit(_ context.Context, _ string, s towpath.Submit) (towpath.BuildNumber, error) {
	y.submitted = s
	return 1, nil
}

func (*yard) Cancel(context.Context, towpath.BuildNumber, string) error {
	return towpath.Errorf(towpath.CodeConflict, "it has ended")
}

func serve(t *testing.T) (*client.Client, *yard) {
	t.Helper()
	y := &yard{}
	s := httptest.NewServer(httpapi.New(httpapi.Config{
		Version: "test", Reader: y, Stream: y, Decider: y, Waiting: func() string { return "disk full" }, Log: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(s.Close)
	return client.New(s.URL, s.Client().Transport), y
}

func TestASubmissionMayCarryVeryManyAtoms(t *testing.T) {
	t.Parallel()
	c, y := serve(t)
	atoms := make([]string, 50_000)
	for i := range atoms {
		atoms[i] = strings.Repeat("a", 60)
	}
	n, err := c.Submit(t.Context(), client.Submission{Project: "p", Job: towpath.Job{Name: "tow", Atoms: towpath.AtomSource{List: atoms}}})
	if err != nil || n != 1 || len(y.submitted.Job.Atoms.List) != len(atoms) {
		t.Errorf("build %d with %d atoms, %v", n, len(y.submitted.Job.Atoms.List), err)
	}
}

func TestHealthSaysWhatTheServerWaitsFor(t *testing.T) {
	t.Parallel()
	c, _ := serve(t)
	if why, err := c.Health(t.Context()); why != "disk full" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
}

func TestErrorsKeepTheirCodeAndTellNothingInternal(t *testing.T) {
	t.Parallel()
	c, _ := serve(t)
	_, notFound := c.Build(t.Context(), 7)
	_, internal := c.Builds(t.Context(), towpath.BuildFilter{})
	_, usage := c.Builds(t.Context(), towpath.BuildFilter{Limit: 5000})
	for _, x := range []struct {
		err  error
		code towpath.Code
	}{
		{notFound, towpath.CodeNotFound},
		{internal, towpath.CodeInternal},
		{usage, towpath.CodeUsage},
		{c.Cancel(t.Context(), 1, "test"), towpath.CodeConflict},
	} {
		if towpath.CodeOf(x.err) != x.code || strings.Contains(x.err.Error(), "secret") {
			t.Errorf("%v has code %s, want %s", x.err, towpath.CodeOf(x.err), x.code)
		}
	}
}

func TestAStreamThatBreaksOffEndsWithAnError(t *testing.T) {
	t.Parallel()
	c, _ := serve(t)
	var names []string
	var last error
	for a, err := range c.Atoms(t.Context(), 1) {
		if last = err; err == nil {
			names = append(names, a.Name)
		}
	}
	if len(names) != 1 || towpath.CodeOf(last) != towpath.CodeInternal || strings.Contains(last.Error(), "secret") {
		t.Errorf("atoms %v, then %v", names, last)
	}
}
