package store_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

// Whoever writes without a pause must not keep others from writing.
func TestProcessesThatWriteAllTheTimeLetEachOtherWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "towpath.db")
	db := open(t, path)
	for range 2 {
		busy := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		busy.Env = append(os.Environ(), childEnv+"="+path)
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = busy.Process.Kill()
			_ = busy.Wait() // killed
		}()
	}
	for { // until both write
		builds, err := db.Builds(t.Context(), towpath.BuildFilter{State: towpath.BuildRunning})
		if err != nil {
			t.Fatal(err)
		}
		if len(builds) == 2 {
			break
		}
	}
	// Each must get on while the others write: had one to wait for the others to pause, this would not end.
	const enough = 50
	longest, writes := time.Duration(0), 0
	for start := time.Now(); writes < enough || !wrote(t, db, enough); writes++ {
		began := time.Now()
		if err := db.RegisterOwner(t.Context(), towpath.Owner{ID: strconv.Itoa(writes)}); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		if time.Since(start) > time.Minute {
			t.Fatalf("after a minute and %d writes of our own the others have not written %d times", writes, enough)
		}
	}
	t.Logf("%d writes, the longest took %v", writes, longest)
}

// wrote says whether both other processes wrote so many times.
func wrote(t *testing.T, db *store.DB, times int) bool {
	t.Helper()
	for _, b := range []towpath.BuildNumber{1, 2} {
		n := 0
		for _, err := range db.Attempts(t.Context(), b) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n < times {
			return false
		}
	}
	return true
}
