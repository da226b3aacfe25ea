//go:build unix

package process

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// guard is the process that ends the tasks of an Executor if this process is killed. It holds the reading end of a pipe
// and acts when the writing end is gone.
type guard struct {
	process *os.Process
	pipe    *os.File
	table   *table
}

// dismissal is what the guard reads before the pipe ends if no task is left for it.
const dismissal = 'q'

// startGuard starts a guard with argv and what it has to know of h. It does not wait for it: what it reads tells it all,
// also if this process is killed before it reads.
func startGuard(argv []string, h *host) (_ *guard, err error) {
	g := &guard{}
	if g.table, err = newTable(); err != nil {
		return nil, fmt.Errorf("start guard of tasks: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start guard of tasks: %w", err)
	}
	defer r.Close() //nolint:errcheck // the guard has its own copy
	g.pipe = w
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("start guard of tasks: %w", err)
	}
	defer null.Close() //nolint:errcheck // the guard has its own copy
	g.process, err = h.startGuard(append(slices.Clip(argv), h.guardArgs()...), &os.ProcAttr{
		Files: []*os.File{r, null, null, g.table.file},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start guard of tasks: %w", err)
	}
	h.table = g.table
	return g, nil
}

// dismiss ends the guard when no task is left.
func (g *guard) dismiss(h *host) error {
	defer g.table.file.Close() //nolint:errcheck // it is memory
	_, werr := g.pipe.Write([]byte{dismissal})
	_ = g.pipe.Close() // the guard is told by what was written
	_, err := g.process.Wait()
	h.forgetGuard(g.process.Pid)
	if err != nil || werr != nil {
		return fmt.Errorf("dismiss guard of tasks, which may have been killed: %w", firstError(werr, err))
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// GuardMain is the main function of a guard: args are what follows GuardArg on its command line. It returns the exit code
// when the process that started it has ended and none of its tasks is left.
func GuardMain(args []string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	b, err := io.ReadAll(io.LimitReader(os.Stdin, 1))
	if err != nil || len(b) > 0 {
		return 0
	}
	rows, err := readTable(os.NewFile(3, "tasks"))
	if err != nil {
		rows = nil // the marks and the cgroup still tell
	}
	if !guardKill(args, rows) {
		return 1
	}
	return 0
}

// table tells the guard which tasks run: a row each with the number of its main process, or 0. It is a file in memory, so
// that telling wakes nobody.
type table struct {
	file *os.File
	mu   sync.Mutex
	free []int // rows; guarded by mu
	rows int   // guarded by mu
}

const rowSize = 4

// add writes a main process into a row and returns the row.
func (t *table) add(pid int) int {
	t.mu.Lock()
	row := t.rows + 1
	if n := len(t.free); n > 0 {
		row = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		t.rows++
	}
	t.mu.Unlock()
	t.write(row, pid)
	return row
}

func (t *table) remove(row int) {
	t.write(row, 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = append(t.free, row)
}

// write is best effort: without its row a task is found by its mark.
func (t *table) write(row, pid int) {
	var b [rowSize]byte
	binary.LittleEndian.PutUint32(b[:], uint32(pid))
	_, _ = t.file.WriteAt(b[:], int64(row)*rowSize)
}

func readTable(f *os.File) ([]int, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	var pids []int
	for ; len(b) >= rowSize; b = b[rowSize:] {
		if pid := binary.LittleEndian.Uint32(b); pid > 1 {
			pids = append(pids, int(pid))
		}
	}
	return pids, err
}
