package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

func TestADatabaseOfANewerVersionIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "towpath.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (4242, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	before := content(t, path)
	_, err = store.Open(t.Context(), store.Options{Path: path})
	if towpath.CodeOf(err) != towpath.CodeConfig {
		t.Fatalf("opened it: %v", err)
	}
	mentions(t, err, path, "4242", "newer Towpath", "--state-dir")
	if content(t, path) != before {
		t.Error("the file was changed")
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mentions checks an error's text: one line with all of these in it.
func mentions(t *testing.T, err error, words ...string) {
	t.Helper()
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestAStateDirectoryThatCannotBeUsedIsNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("this is no database\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, says string }{
		{file, "not a database"},
		{filepath.Join(file, "below", "towpath.db"), "not a directory"},
		{filepath.Join(dir, "taken.db"), "cannot be opened"},
		{"/proc/towpath/towpath.db", "--state-dir"},
	} {
		_, err := store.Open(t.Context(), store.Options{Path: c.path})
		if towpath.CodeOf(err) != towpath.CodeConfig {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		mentions(t, err, c.path, c.says)
	}
}

func TestAReadOnlyDirectoryIsNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("skipped: root may write everywhere")
	}
	dir := filepath.Join(t.TempDir(), "ro")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "sub", "towpath.db")})
	if towpath.CodeOf(err) != towpath.CodeConfig {
		t.Fatalf("opened it: %v", err)
	}
	mentions(t, err, dir, "permission denied", "--state-dir")
}

func TestAFullDiskRefusesAndNothingStoredIsLost(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "towpath.db"))
	ctx := t.Context()
	owner := "owner"
	if err := db.RegisterOwner(ctx, towpath.Owner{ID: owner}); err != nil {
		t.Fatal(err)
	}
	n, err := db.NextBuild(ctx, store.Reservation{Owner: owner, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	event := func(body towpath.Body) error {
		return db.Commit(ctx, &store.Batch{Owner: owner, Events: []towpath.Event{{Build: n, At: time.Now(), Body: body}}})
	}
	if err := event(towpath.BuildSubmitted{Job: towpath.Job{Name: "j"}}); err != nil {
		t.Fatal(err)
	}
	if err := db.LimitPages(ctx, 60); err != nil {
		t.Fatal(err)
	}
	stored := int64(1)
	grow := func() error {
		for range 1000 {
			// Random text, for zeros would be packed away.
			id := towpath.AttemptID(strings.Repeat(time.Now().String(), 20))
			if err := event(towpath.AtomStarted{Attempt: id}); err != nil {
				return err
			}
			stored++
		}
		return nil
	}
	err = grow()
	if towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Fatalf("after %d events: %v", stored, err)
	}
	mentions(t, err, db.Path(), "disk full", "make room")
	if err := db.LimitPages(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := event(towpath.BuildFinished{State: towpath.BuildPassed}); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	last := int64(0)
	for e, err := range db.Events(ctx, n, 1) {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Seq
	}
	if last != stored+1 {
		t.Errorf("%d events were acknowledged, %d are stored", stored+1, last)
	}
}

func TestSeveralOpenAndWriteOneFileAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "towpath.db")
	var mu sync.Mutex
	seen := map[towpath.BuildNumber]bool{}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			db, err := store.Open(t.Context(), store.Options{Path: path}) // all of them make and migrate it
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = db.Close() }()
			for range 20 {
				n, err := db.NextBuild(t.Context(), store.Reservation{Owner: "o", At: time.Now()})
				mu.Lock()
				if err != nil || seen[n] {
					t.Errorf("number %d, seen before: %v, err %v", n, seen[n], err)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 120 {
		t.Errorf("%d numbers, want 120", len(seen))
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "towpath.db"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := db.Probe(t.Context(), "o"); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("write to a closed store: %v", err)
	}
}

func TestAPrunedFileShrinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "towpath.db")
	db := open(t, path)
	ctx := t.Context()
	if err := db.RegisterOwner(ctx, towpath.Owner{ID: "o"}); err != nil {
		t.Fatal(err)
	}
	n, err := db.NextBuild(ctx, store.Reservation{Owner: "o", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	b := store.Batch{Owner: "o", Events: []towpath.Event{
		{Build: n, At: at, Body: towpath.BuildSubmitted{}},
		{Build: n, At: at, Body: towpath.AttemptOffered{Attempt: "a", Number: 1}},
	}}
	noise := make([]byte, 64<<10)
	x := uint32(1)
	for i := range noise {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for i := range 100 {
		b.Logs = append(b.Logs, store.LogChunk{Build: n, Attempt: "a", Offset: int64(i * len(noise)), Data: noise})
	}
	if err := db.Commit(ctx, &b); err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, &store.Batch{Owner: "o", Events: []towpath.Event{{Build: n, At: at, Body: towpath.BuildFinished{State: towpath.BuildPassed}}}}); err != nil {
		t.Fatal(err)
	}
	before := db.Pages(t)
	for more := true; more; {
		if more, err = db.Prune(ctx, 0, at.Add(time.Hour), at); err != nil {
			t.Fatal(err)
		}
	}
	if after := db.Pages(t); after > before/10 {
		t.Errorf("%d pages before, %d after", before, after)
	}
}
