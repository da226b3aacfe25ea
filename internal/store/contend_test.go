package store_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/towpath/towpath"
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
	var took []time.Duration
	for start := time.Now(); time.Since(start) < time.Second; {
		began := time.Now()
		if err := db.RegisterOwner(t.Context(), towpath.Owner{ID: strconv.Itoa(len(took))}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	n := len(took)
	t.Logf("%d writes: median %v, 99%% %v, longest %v", n, took[n/2], took[n*99/100], took[n-1])
	if n < 50 || took[n-1] > 5*time.Second {
		t.Errorf("%d writes in a second, the longest took %v", n, took[n-1])
	}
	for _, b := range []towpath.BuildNumber{1, 2} {
		others := 0
		for _, err := range db.Attempts(t.Context(), b) {
			if err != nil {
				t.Fatal(err)
			}
			others++
		}
		if others < 50 {
			t.Errorf("writer %d wrote only %d times", b, others)
		}
	}
}
