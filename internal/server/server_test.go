package server_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *server.Server {
	t.Helper()
	s, err := server.Open(t.Context(), server.Config{StateDir: dir, Logger: slog.New(slog.DiscardHandler), KeepBuilds: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// live runs a server while f runs, and closes it.
func live(t *testing.T, s *server.Server, f func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	f()
	stop()
	if err := errors.Join(<-done, s.Close()); err != nil {
		t.Error(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestAServerRemovesWhatKilledOnesLeftAndNothingOfLiveOnes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := open(t, dir)
	dead := filepath.Join(dir, "scratch", "DEAD")
	if err := os.MkdirAll(filepath.Join(dead, "slot-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	live(t, s, func() {})
	if exists(dead) || exists(s.Scratch()) {
		t.Errorf("left behind: %s %t, %s %t", dead, exists(dead), s.Scratch(), exists(s.Scratch()))
	}
	if !exists(other.Scratch()) {
		t.Error("the directory of a live server was removed")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestABuildIsSeenAndCanceledFromAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	live(t, s, func() {
		n, err := s.Client().Submit(t.Context(), client.Submission{Project: "p", Job: towpath.Job{
			Name: "tow", Slots: 1, Run: "true", Atoms: towpath.AtomSource{List: []string{"a"}},
			Timeouts: towpath.Timeouts{Queue: 1e12, Setup: 1e12, Silence: 1e12, Build: 2e12},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := server.OpenReader(t.Context(), server.Config{StateDir: dir, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := r.Client().Build(t.Context(), n); err != nil || b.State.Final() {
			t.Errorf("another process sees %v, %v", b.State, err)
		}
		if err := r.Client().Cancel(t.Context(), n, "test"); err != nil {
			t.Errorf("cancel from another process: %v", err)
		}
		var last towpath.Body
		for e, err := range r.Client().Events(t.Context(), n, 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = e.Event.Body
		}
		if f, ok := last.(towpath.BuildFinished); !ok || f.State != towpath.BuildCanceled {
			t.Errorf("its events end with %#v", last)
		}
		if err := r.Client().Cancel(t.Context(), n, "test"); towpath.CodeOf(err) != towpath.CodeConflict {
			t.Errorf("cancel what has ended: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
