package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/towpath/towpath/internal/executor"
)

// eater is shell text for a process that keeps all it reads.
const eater = `exec tail -n 1 </dev/zero`

// memoryV1 is this process's cgroup of the v1 memory controller, the one that can limit memory here, or "".
func memoryV1(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && f[1] == "memory" {
			dir := filepath.Join("/sys/fs/cgroup/memory", f[2])
			if f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0); err == nil {
				_ = f.Close()
				return dir
			}
		}
	}
	t.Skip("SKIPPED, NOT TESTED: kills for want of memory, for want of a writable cgroup v1 memory controller")
	return ""
}

func TestATaskThatNeedsTooMuchMemoryIsNamedAsSuch(t *testing.T) {
	t.Parallel()
	memoryV1(t)
	for name, c := range variants {
		for about, text := range map[string]string{
			"its main process":   eater,
			"a child of a shell": `(` + eater + `); exit $?`,
		} {
			t.Run(name+", "+about, func(t *testing.T) {
				t.Parallel()
				e := open(t, c)
				task := shell(t, t.TempDir(), text)
				task.Memory = 48 << 20
				res, err := e.Run(t.Context(), task)
				if err != nil || res.End != executor.EndMemory {
					t.Errorf("got %+v, %v", res, err)
				}
				// What ran there does not mark the next.
				task.Argv[2] = `kill -KILL $$`
				res, err = e.Run(t.Context(), task)
				if err != nil || res.End != executor.EndExited || res.Signal != "SIGKILL" {
					t.Errorf("the next task, killed by itself: got %+v, %v", res, err)
				}
			})
		}
	}
}

// It does not run beside others, whose kills for want of memory the kernel counts with its own.
func TestAKillForWantOfMemoryOfTheHostIsNamedAsSuch(t *testing.T) {
	dir := filepath.Join(memoryV1(t), fmt.Sprintf("towpath-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte("48M"), 0); err != nil {
		t.Fatal(err)
	}
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			e := open(t, c)
			task := shell(t, t.TempDir(), `kill -KILL $$`)
			res, err := e.Run(t.Context(), task)
			if err != nil || res.End != executor.EndExited || res.Signal != "SIGKILL" {
				t.Errorf("killed by itself: got %+v, %v", res, err)
			}
			task.Argv = []string{"sh", "-c", `echo $$ >"$1/cgroup.procs"; ` + eater, "sh", dir}
			res, err = e.Run(t.Context(), task)
			if err != nil || res.End != executor.EndMemory || res.Signal != "SIGKILL" || len(res.Leftovers) > 0 {
				t.Errorf("killed for want of memory: got %+v, %v", res, err)
			}
		})
	}
}

func TestATaskWithinItsMemoryLimitIsNotStopped(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := shell(t, t.TempDir(), `exit 5`)
			task.Memory = 256 << 20
			res, err := open(t, c).Run(t.Context(), task)
			if err != nil || res.End != executor.EndExited || res.ExitCode != 5 {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}
