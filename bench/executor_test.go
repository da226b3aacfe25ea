//go:build unix

package bench_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/towpath/towpath/internal/executor"
	"github.com/towpath/towpath/internal/executor/process"
)

// BenchmarkExecutorAgainstXargs runs 1,000 times true, 8 at a time, through the process executor and through xargs in
// turn, and reports the ratio of their times. One operation is 1,000 commands of each.
func BenchmarkExecutorAgainstXargs(b *testing.B) {
	for _, v := range []struct {
		name   string
		config process.Config
	}{{"cgroup", process.Config{}}, {"no_cgroup", process.Config{WithoutCgroup: true}}} {
		b.Run(v.name, func(b *testing.B) {
			e, err := process.New(v.config)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := e.Close(b.Context()); err != nil {
					b.Error(err)
				}
			}()
			var ours, theirs time.Duration
			for b.Loop() {
				ours += timed(b, func() error { return manyTrue(b.Context(), e, 1000, 8) })
				theirs += timed(b, func() error { return xargsTrue(b.Context(), 1000, 8) })
			}
			b.ReportMetric(float64(ours.Microseconds())/float64(1000*b.N), "us/command")
			b.ReportMetric(float64(theirs.Microseconds())/float64(1000*b.N), "us/xargs_command")
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "ratio")
		})
	}
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func manyTrue(ctx context.Context, e executor.Executor, n, width int) error {
	ids := make(chan int)
	errs := make(chan error, width) // one of each worker
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			var failed error
			for id := range ids {
				_, err := e.Run(ctx, executor.Task{
					ID: "true-" + strconv.Itoa(id), Argv: []string{"true"}, Env: []string{"PATH=" + os.Getenv("PATH")},
					Stdout: discard{1}, Stderr: discard{2},
				})
				if err != nil {
					failed = err
				}
			}
			errs <- failed
		})
	}
	for i := range n {
		ids <- i
	}
	close(ids)
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func xargsTrue(ctx context.Context, n, width int) error {
	cmd := exec.CommandContext(ctx, "xargs", "-P", strconv.Itoa(width), "-n", "1", "true")
	cmd.Stdin = strings.NewReader(strings.Repeat("x\n", n))
	return cmd.Run()
}

// discard takes all output. Two of them differ, so that each stream has a pipe of its own as in a build.
type discard struct{ stream int }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
