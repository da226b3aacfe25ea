//go:build unix

package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/towpath/towpath/internal/executor"
)

// alive reports whether a process runs; one that only waits to be reaped does not.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil || syscall.Kill(n, 0) == syscall.ESRCH {
		return false
	}
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func limit(t *testing.T, b *box) {
	task := b.sh(`exec sleep 1000`)
	task.Limit = 200 * time.Millisecond
	res := b.run(t, task)
	if res.End != executor.EndLimit || res.Signal != "SIGTERM" || res.Wall < task.Limit {
		t.Errorf("got %+v", res)
	}
}

func limitOfChatty(t *testing.T, b *box) {
	task := b.sh(`while :; do echo chatter; done`)
	task.Stdout = io.Discard
	task.Limit, task.Silence = 300*time.Millisecond, time.Hour
	if res := b.run(t, task); res.End != executor.EndLimit {
		t.Errorf("got %+v", res)
	}
}

func silence(t *testing.T, b *box) {
	var out bytes.Buffer
	task := b.sh(`echo hello; exec sleep 1000`)
	task.Stdout = &out
	task.Silence = 200 * time.Millisecond
	res := b.run(t, task)
	if res.End != executor.EndSilence || res.Wall < task.Silence || out.String() != "hello\n" {
		t.Errorf("got %+v with output %q", res, out.String())
	}
}

func output(t *testing.T, b *box) {
	task := b.sh(`for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i >&2; done`)
	task.Stderr = io.Discard
	task.Silence = 3 * time.Second
	res := b.run(t, task)
	wantExit(t, res, 0)
	if res.Wall < task.Silence {
		t.Errorf("took %s, which proves nothing of a silence of %s", res.Wall, task.Silence)
	}
}

func busy(t *testing.T, b *box) {
	blocked := b.sh(`sleep 1000 & wait`)
	blocked.Limit = time.Second
	if res := b.run(t, blocked); res.End != executor.EndLimit || res.Busy > 0.02 {
		t.Errorf("blocked: got %+v", res)
	}
	// Where others keep all cores busy a spinning task may get next to nothing for a moment.
	for range 10 {
		spinning := b.sh(`(while :; do :; done) & wait`)
		spinning.Silence = time.Second
		res := b.run(t, spinning)
		if res.End != executor.EndSilence {
			t.Fatalf("spinning: got %+v", res)
		}
		if res.Busy > 0.1 {
			return
		}
	}
	t.Error("a spinning task never counts as busy")
}

func canceled(t *testing.T, b *box) {
	w := watch("ready")
	task := b.sh(`echo $$ >pid.main; sleep 1000 & echo $! >pid.child; echo ready; wait`)
	task.Stdout = w
	res, err := b.Run(cancelAt(t, w), task)
	if err != nil || res.End != executor.EndCanceled || res.Signal != "SIGTERM" {
		t.Errorf("got %+v, %v", res, err)
	}
	b.wantGone(t, 2)
}

func canceledBefore(t *testing.T, b *box) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := b.Run(ctx, b.sh(`touch began`))
	if err != nil || res.End != executor.EndCanceled || res.ExitCode != -1 {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "began")); !os.IsNotExist(err) {
		t.Error("the command was started")
	}
}

func grace(t *testing.T, b *box) {
	w := watch("ready")
	task := b.sh(`trap '' TERM; echo ready; while :; do sleep 1000; done`)
	task.Stdout = w
	task.Grace = 300 * time.Millisecond
	res, err := b.Run(cancelAt(t, w), task)
	if err != nil || res.End != executor.EndCanceled || res.Signal != "SIGKILL" || res.Wall < task.Grace {
		t.Errorf("got %+v, %v", res, err)
	}
}

func cleanUp(t *testing.T, b *box) {
	w := watch("bye\n")
	ready := watch("ready")
	task := b.sh(`trap 'echo bye >&2; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	task.Stdout, task.Stderr = ready, w
	task.Grace = time.Minute
	res, err := b.Run(cancelAt(t, ready), task)
	if err != nil || res.End != executor.EndCanceled || res.ExitCode != 3 {
		t.Errorf("got %+v, %v", res, err)
	}
	select {
	case <-w.seen:
	default:
		t.Error("its last words are missing")
	}
}

func leftovers(t *testing.T, b *box) {
	var out bytes.Buffer
	task := b.sh(`sleep 1234 & echo $! >pid.sleep; echo done`)
	task.Stdout = &out
	start := time.Now()
	res := b.run(t, task)
	wantExit(t, res, 0)
	if took := time.Since(start) - res.Wall; took > 10*time.Second {
		t.Errorf("ended %s after its main process", took)
	}
	if len(res.Leftovers) != 1 || res.Leftovers[0].Command != "sleep 1234" || out.String() != "done\n" {
		t.Errorf("got %+v with output %q", res, out.String())
	}
	b.wantGone(t, 1)
}

func noLeftover(t *testing.T, b *box) {
	var out bytes.Buffer
	task := b.sh(`(sleep 0.05; echo flushed) & exit 0`)
	task.Stdout = &out
	res := b.run(t, task)
	wantExit(t, res, 0)
	// On a host too busy to run the helper in time it is killed, and named.
	if (out.String() == "flushed\n") == (len(res.Leftovers) > 0) {
		t.Errorf("got %+v with output %q", res, out.String())
	}
}

func stubbornTree(t *testing.T, b *box) {
	w := watch("ready ready ")
	task := b.sh(`trap '' TERM; echo $$ >pid.main
(echo $(sh -c 'echo $PPID') >pid.child; printf 'ready '; while :; do sleep 1000; done) &
printf 'ready '; while :; do sleep 1000; done`)
	task.Stdout, task.Stderr = w, w
	task.Grace = 200 * time.Millisecond
	start := time.Now()
	res, err := b.Run(cancelAt(t, w), task)
	if err != nil || res.End != executor.EndCanceled || res.Signal != "SIGKILL" || len(res.Leftovers) == 0 {
		t.Errorf("got %+v, %v", res, err)
	}
	if took := time.Since(start); took > 60*time.Second {
		t.Errorf("took %s", took)
	}
	b.wantGone(t, 2)
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func failingWriter(t *testing.T, b *box) {
	task := b.sh(`i=0; while [ $i -lt 5000 ]; do echo "line $i of many that fill more than a pipe"; i=$((i+1)); done; touch finished`)
	task.Stdout = fullDisk{}
	if _, err := b.Run(t.Context(), task); !errors.Is(err, errFull) {
		t.Errorf("got error %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "finished")); err != nil {
		t.Errorf("the task did not finish: %v", err)
	}
}

// counter counts bytes and keeps the last.
type counter struct {
	n    int64
	tail []byte
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.tail = append(c.tail, p...)
	c.tail = bytes.Clone(c.tail[max(0, len(c.tail)-16):])
	return len(p), nil
}

func muchOutput(t *testing.T, b *box) {
	var c counter
	task := b.sh(`head -c 200000000 /dev/zero; printf END`)
	task.Stdout = &c
	wantExit(t, b.run(t, task), 0)
	if c.n != 200000003 || !bytes.HasSuffix(c.tail, []byte("END")) {
		t.Errorf("got %d bytes, ending in %q", c.n, c.tail)
	}
}

func sideBySide(t *testing.T, b *box) {
	var wg sync.WaitGroup
	for i := range 60 {
		task := b.sh(fmt.Sprintf(`echo %d; exit %d`, i, i))
		wg.Go(func() {
			var out bytes.Buffer
			task.Stdout = &out
			res, err := b.Run(t.Context(), task)
			if err != nil || res.ExitCode != i || out.String() != fmt.Sprintln(i) || len(res.Leftovers) > 0 {
				t.Errorf("task %d: got %+v, %v with output %q", i, res, err, out.String())
			}
		})
	}
	wg.Wait()
}

func usage(t *testing.T, b *box) {
	res := b.run(t, b.sh(`i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`))
	if res.CPU <= 0 || res.CPU > res.Wall*64 || res.MaxRSS < 100<<10 || res.MaxRSS > 1<<30 || res.Wall <= 0 {
		t.Errorf("got %+v", res)
	}
}

// stuck is a writer that takes nothing until it is let go.
type stuck struct{ letGo chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.letGo
	return len(p), nil
}

func stuckWriter(t *testing.T, b *box) {
	s := stuck{letGo: make(chan struct{})}
	defer close(s.letGo)
	task := b.sh(`echo hello`)
	task.Stdout = s
	ctx, cancel := context.WithTimeout(t.Context(), guardTime)
	defer cancel()
	if _, err := b.Run(ctx, task); err == nil || ctx.Err() != nil {
		t.Errorf("got error %v", err)
	}
}

func largeArguments(t *testing.T, b *box) {
	var out bytes.Buffer
	task := b.sh(`echo $# ${#1}`)
	task.Argv = append(task.Argv, "sh", strings.Repeat("x", 100<<10))
	task.Stdout = &out
	wantExit(t, b.run(t, task), 0)
	if out.String() != "1 102400\n" {
		t.Errorf("got %q", out.String())
	}
}
