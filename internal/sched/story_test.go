package sched_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath/internal/sched"
	"github.com/towpath/towpath/internal/sched/simtest"
)

var update = flag.Bool("update", false, "write the stories under testdata anew")

func TestStoriesGoAsTold(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := simtest.Story(string(want))
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s went otherwise (-told +went):\n%s", file, diff)
			}
		})
	}
}

// TestAFailingSeedReplaysFromItsScript shows that what a failing seed prints is enough to see the failure again.
func TestAFailingSeedReplaysFromItsScript(t *testing.T) {
	t.Parallel()
	flawed := func(cfg sched.Config) *sched.State {
		s := sched.New(cfg)
		s.SetBug("recalled units are forgotten")
		return s
	}
	for seed := range uint64(1000) {
		r := simtest.Run(simtest.Options{Seed: seed, New: flawed, Script: true})
		if r.Err == nil {
			if err := simtest.Replay(r.Script, nil); err != nil {
				t.Fatalf("seed %d passes, its script does not: %v", seed, err)
			}
			continue
		}
		if err := simtest.Replay(r.Script, flawed); err == nil {
			t.Fatalf("seed %d fails with %v, its script does not:\n%s", seed, r.Err, r.Script)
		}
		return
	}
	t.Fatal("no seed fails")
}
