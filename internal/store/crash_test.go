package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

const childEnv = "TOWPATH_STORE_TEST_CHILD"

// child, in a process that a test started, writes a build in a loop and says on standard output what is committed.
func child() bool {
	path := os.Getenv(childEnv)
	if path == "" {
		return false
	}
	if err := writeForever(context.Background(), path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func writeForever(ctx context.Context, path string) error {
	db, err := store.Open(ctx, store.Options{Path: path, Busy: time.Minute})
	if err != nil {
		return err
	}
	owner := "pid " + strconv.Itoa(os.Getpid())
	if err := db.RegisterOwner(ctx, towpath.Owner{ID: owner, PID: os.Getpid(), Started: time.Now()}); err != nil {
		return err
	}
	n, err := db.NextBuild(ctx, store.Reservation{Owner: owner, Project: "p", Job: "j", At: time.Now()})
	if err != nil {
		return err
	}
	commit := func(seq int, body towpath.Body, logs ...store.LogChunk) error {
		err := db.Commit(ctx, &store.Batch{Owner: owner, Events: []towpath.Event{{Build: n, At: time.Now(), Body: body}}, Logs: logs})
		if err == nil {
			_, err = fmt.Printf("%d %d\n", n, seq)
		}
		return err
	}
	if err := commit(1, towpath.BuildSubmitted{Job: towpath.Job{Name: "j"}}); err != nil {
		return err
	}
	if err := commit(2, towpath.AtomsListed{Atoms: []towpath.ListedAtom{{Name: "a"}, {Name: "b"}}}); err != nil {
		return err
	}
	for seq := 3; ; seq++ {
		id := towpath.AttemptID(strconv.Itoa(seq))
		offered := towpath.AttemptOffered{Attempt: id, Number: seq, Kind: towpath.AttemptRun, Session: "s", Agent: "a", Units: []towpath.OfferedUnit{{}}}
		chunk := store.LogChunk{Build: n, Attempt: id, Data: []byte(strings.Repeat("0123456789", 500))}
		if err := commit(seq, offered, chunk); err != nil {
			return err
		}
	}
}

// killAfter runs two writers on the same file, kills each with SIGKILL after it has said so many things, and returns the
// last sequence number that was acknowledged for each build.
func killAfter(t *testing.T, path string, lines int) map[towpath.BuildNumber]int64 {
	t.Helper()
	type writer struct {
		cmd *exec.Cmd
		out *bufio.Scanner
		err *strings.Builder
	}
	var writers []writer
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr := &strings.Builder{}
		cmd.Stderr = stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, writer{cmd, bufio.NewScanner(out), stderr})
	}
	acked := map[towpath.BuildNumber]int64{}
	for i, w := range writers {
		note := func() {
			var n towpath.BuildNumber
			var seq int64
			if _, err := fmt.Sscan(w.out.Text(), &n, &seq); err != nil {
				t.Fatalf("writer said %q: %v", w.out.Text(), err)
			}
			acked[n] = seq
		}
		said := 0
		for said < lines*(i+1) && w.out.Scan() {
			said++
			note()
		}
		if err := w.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for w.out.Scan() { // what it had said before it was killed
			note()
		}
		if err := w.cmd.Wait(); said < lines*(i+1) {
			t.Fatalf("writer ended by itself after %d commits: %v\n%s", said, err, w.err)
		}
	}
	return acked
}

func TestEveryAcknowledgedCommitSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "towpath.db")
	rounds := 15
	if testing.Short() {
		rounds = 3
	}
	builds := map[towpath.BuildNumber]int64{}
	for range rounds {
		acked := killAfter(t, path, 3+rand.IntN(60))
		db, err := store.Open(t.Context(), store.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		for n, seq := range acked {
			if builds[n] != 0 {
				t.Errorf("number %d was given twice", n)
			}
			builds[n] = seq
			checkBuild(t, db, n, seq)
		}
		orphans, err := db.Orphans(t.Context(), func(towpath.Owner) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range orphans {
			if err := db.MarkErrored(t.Context(), o.Build, time.Now(), "its process is gone"); err != nil {
				t.Fatal(err)
			}
		}
		for n := range acked {
			if b, err := db.Build(t.Context(), n); err != nil || b.State != towpath.BuildErrored || b.Atoms.Canceled != 2 {
				t.Errorf("build %d afterwards: %+v, %v", n, b, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	var verdict string
	if err := raw.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity check: %s, %v", verdict, err)
	}
}

// checkBuild looks for all that was acknowledged: at least so many events without a hole, each with its attempt and log.
func checkBuild(t *testing.T, db *store.DB, n towpath.BuildNumber, acked int64) {
	t.Helper()
	var last int64
	for e, err := range db.Events(t.Context(), n, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Fatalf("build %d: event %d follows %d", n, e.Seq, last)
		}
		last = e.Seq
	}
	if last < acked {
		t.Errorf("build %d: %d was acknowledged, %d is stored", n, acked, last)
	}
	attempts, pieces := int64(0), int64(0)
	for a, err := range db.Attempts(t.Context(), n) {
		if err != nil {
			t.Fatal(err)
		}
		attempts++
		_ = a
	}
	for _, err := range db.Log(t.Context(), n, towpath.LogQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		pieces++
	}
	if attempts != last-2 || pieces != last-2 {
		t.Errorf("build %d has %d events, but %d attempts and %d pieces of log", n, last, attempts, pieces)
	}
}
