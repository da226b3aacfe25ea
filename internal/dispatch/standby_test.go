package dispatch_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/dispatch"
	"github.com/towpath/towpath/internal/store"
)

// behind changes the database as another program would.
func behind(t *testing.T, db *store.DB, statement string) {
	t.Helper()
	other, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: db.Path(), RawQuery: "_pragma=busy_timeout(10000)"}).String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.ExecContext(t.Context(), statement)
	if err := errors.Join(err, other.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreThatWillNotMendEndsTheLoop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, says string }{
		"a table is gone":                   {"DROP TABLE attempts", "no such table"},
		"a column is gone":                  {"ALTER TABLE attempts RENAME COLUMN agent TO worker", "agent"},
		"only the probe meets what is gone": {"ALTER TABLE owners RENAME COLUMN probe TO probed", "probe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "towpath.db")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := db.RegisterOwner(t.Context(), towpath.Owner{ID: "owner", PID: 7, Started: time.Now()}); err != nil {
				t.Fatal(err)
			}
			f := &faulty{DB: db}
			w := &world{T: t, db: db, commands: make(chan towpath.Command, 1000)}
			w.loop = dispatch.New(dispatch.Config{Store: f, Sessions: w, Owner: "owner", Logger: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- w.loop.Run(ctx) }()
			w.hello("s", 1)
			behind(t, db, c.statement)
			f.set(false, strings.Contains(c.statement, "probe")) // one write of unknown outcome makes it probe
			_, err = w.loop.Submit(ctx, "project", towpath.Submit{Job: job(1)})
			if towpath.CodeOf(err) != towpath.CodeUnavailable {
				t.Errorf("submission: %v", err)
			}
			select {
			case err = <-ended:
			case <-ctx.Done():
				t.Fatal("the loop stands by for ever")
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), db.Path()) {
				t.Errorf("the loop ended with %v", err)
			}
			if why := w.loop.Trouble(); why != "" {
				t.Errorf("a loop that has ended stands by: %s", why)
			}
			if err := w.loop.Call(ctx, towpath.Hello{Session: "t"}); towpath.CodeOf(err) != towpath.CodeUnavailable {
				t.Errorf("a call after the end: %v", err)
			}
		})
	}
}

func TestALoopThatStandsByTellsWhy(t *testing.T) {
	t.Parallel()
	w, f := beginFaulty(t)
	w.hello("s", 1)
	if why := w.loop.Trouble(); why != "" {
		t.Errorf("in trouble from the start: %s", why)
	}
	n := w.submit(job(1))
	o := w.offer()
	f.set(true, false)
	if err := w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: o.Attempt}); err == nil {
		t.Fatal("acknowledged with a full disk")
	}
	if why := w.loop.Trouble(); why != errFull.Error() {
		t.Errorf("it stands by for %q", why)
	}
	f.set(false, false)
	for _, in := range answers(o) {
		w.again(in)
	}
	w.watch(n, 1)
	if why := w.loop.Trouble(); why != "" {
		t.Errorf("still in trouble: %s", why)
	}
}
