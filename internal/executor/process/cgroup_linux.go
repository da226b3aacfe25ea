package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupPrefix begins the names of Towpath's cgroups; the owner follows.
const groupPrefix = "towpath-"

// groups makes the cgroups of tasks and keeps those that are free for the next.
type groups struct {
	dir    string // of this Executor, below the cgroup of this process
	memory bool   // the memory controller is on for tasks
	next   atomic.Int64
	mu     sync.Mutex
	free   []*group // guarded by mu
}

// group is the cgroup of one task.
type group struct {
	dir     string
	fd      int // of dir
	events  int // cgroup.events
	stat    int // cpu.stat
	limited bool
	killed  bool // cgroup.kill was written: kernels since 6.14 kill what is started in it later
	counts  bool // it counts the processes killed for want of memory
}

// executors numbers the Executors of this process.
var executors atomic.Int64

// newGroups makes a cgroup v2 below that of this process. An error says why there is none.
func newGroups(self owner) (*groups, error) {
	parent, err := ownCgroup("cgroup2", "")
	if err != nil {
		return nil, err
	}
	gs := &groups{dir: filepath.Join(parent, fmt.Sprintf("%s%s.%d", groupPrefix, self, executors.Add(1)))}
	if err := os.Mkdir(gs.dir, 0o755); err != nil {
		return nil, err
	}
	// A trial shows what a kernel too old or a delegation too narrow would only show at the first task.
	controllers, err := os.ReadFile(filepath.Join(gs.dir, "cgroup.controllers"))
	if err == nil && strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " memory ") {
		gs.memory = writeControl(filepath.Join(gs.dir, "cgroup.subtree_control"), []byte("+memory")) == nil
	}
	g, err := gs.make()
	if err == nil {
		err = errors.Join(gs.trial(g), gs.put(g))
	}
	if err != nil {
		return nil, errors.Join(err, removeGroups(gs.dir))
	}
	return gs, nil
}

// trial runs a command in the cgroup: whether that is allowed, and that it is not killed at once for a cgroup.kill of
// long ago, is known only by doing it.
func (gs *groups) trial(g *group) error {
	if err := unix.Access(filepath.Join(g.dir, "cgroup.kill"), unix.W_OK); err != nil {
		return fmt.Errorf("cgroup.kill of %s: %w", g.dir, err)
	}
	p, err := launch("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: g.fd},
	}, nil)
	if err != nil {
		return fmt.Errorf("start a process in %s: %w", g.dir, err)
	}
	state, err := p.Wait()
	theChildren.forget(p.Pid, nil)
	if err == nil && !state.Success() {
		err = fmt.Errorf("a process started in %s ended at once: %s", g.dir, state)
	}
	return err
}

// ownCgroup returns the directory of this process's cgroup in the hierarchy of the given file system and controller.
func ownCgroup(fstype, controller string) (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return cgroupDir(string(own), string(mounts), fstype, controller)
}

func cgroupDir(own, mounts, fstype, controller string) (string, error) {
	path := ""
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && hasWord(f[1], controller) {
			path = f[2]
		}
	}
	if path == "" {
		return "", fmt.Errorf("this process is in no %s hierarchy %s", fstype, controller)
	}
	if strings.HasPrefix(path, "/..") {
		return "", fmt.Errorf("this process's cgroup %s is above its namespace of cgroups", path)
	}
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 || g[0] != fstype || fstype == "cgroup" && !hasWord(g[2], controller) {
			continue
		}
		root, point := unescape(f[3]), unescape(f[4])
		rel, err := filepath.Rel(root, path)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return filepath.Join(point, rel), nil
		}
	}
	return "", fmt.Errorf("no mount of %s shows this process's cgroup %s", fstype, path)
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// unescape undoes the escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// get returns an empty cgroup. One with a memory limit is made for its task alone.
func (gs *groups) get(memory int64) (*group, error) {
	if memory > 0 && gs.memory {
		g, err := gs.make()
		if err != nil {
			return nil, err
		}
		return g, g.limit(memory)
	}
	if g := gs.takeFree(); g != nil {
		return g, nil
	}
	return gs.make()
}

func (gs *groups) takeFree() *group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	n := len(gs.free)
	if n == 0 {
		return nil
	}
	g := gs.free[n-1]
	gs.free = gs.free[:n-1]
	return g
}

func (gs *groups) make() (*group, error) {
	g := &group{dir: filepath.Join(gs.dir, strconv.FormatInt(gs.next.Add(1), 10)), fd: -1, events: -1, stat: -1, counts: gs.memory}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup for a task: %w", err)
	}
	if err := g.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open cgroup %s: %w", g.dir, err), g.remove())
	}
	return g, nil
}

func (g *group) open() (err error) {
	for _, f := range []struct {
		fd   *int
		name string
	}{{&g.fd, "."}, {&g.events, "cgroup.events"}, {&g.stat, "cpu.stat"}} {
		if *f.fd, err = unix.Open(filepath.Join(g.dir, f.name), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
	}
	return nil
}

// put takes a cgroup back. One that is not empty stays where it is, for close or the next run to remove.
func (gs *groups) put(g *group) error {
	if g.limited || g.killed || g.populated() {
		return g.remove()
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.free = append(gs.free, g)
	return nil
}

func (gs *groups) close() error {
	for {
		g := gs.takeFree()
		if g == nil {
			return removeGroups(gs.dir)
		}
		g.closeFiles()
	}
}

func (g *group) closeFiles() {
	for _, fd := range []int{g.fd, g.events, g.stat} {
		if fd >= 0 {
			_ = unix.Close(fd) // it was only read or watched
		}
	}
}

func (g *group) remove() error {
	g.closeFiles()
	return removeGroups(g.dir)
}

// removeGroups removes an empty cgroup and those below, which a task that makes cgroups leaves behind.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeGroups(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, unix.Rmdir(dir))
}

// limit sets the memory limit.
func (g *group) limit(bytes int64) error {
	g.limited = true
	if err := writeControl(filepath.Join(g.dir, "memory.max"), strconv.AppendInt(nil, bytes, 10)); err != nil {
		return errors.Join(fmt.Errorf("set memory limit: %w", err), g.remove())
	}
	// Where swap is counted it would only make the same task slow first.
	if err := writeControl(filepath.Join(g.dir, "memory.swap.max"), []byte("0")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("set swap limit: %w", err), g.remove())
	}
	return nil
}

func pread(fd int, buf []byte) []byte {
	n, err := retry(func() (int, error) { return unix.Pread(fd, buf, 0) })
	if err != nil {
		return nil
	}
	return buf[:n]
}

// populated reports whether a process is in the cgroup or below. What cannot be read counts as populated.
func (g *group) populated() bool {
	var buf [256]byte
	b := pread(g.events, buf[:])
	return len(b) == 0 || field(b, "populated ") != 0
}

func (g *group) cpu() time.Duration {
	var buf [1024]byte
	return time.Duration(field(pread(g.stat, buf[:]), "usage_usec ")) * time.Microsecond
}

func (g *group) oomKills() int64 {
	if !g.counts {
		return 0
	}
	var buf [512]byte
	b, err := readFile(filepath.Join(g.dir, "memory.events"), buf[:])
	if err != nil {
		return 0
	}
	return field(b, "oom_kill ")
}

// kill kills all processes in the cgroup and below, also those being started.
func (g *group) kill() error {
	g.killed = true
	return killGroup(g.dir)
}

func killGroup(dir string) error {
	return writeControl(filepath.Join(dir, "cgroup.kill"), []byte("1"))
}

func (g *group) pids() []int { return groupPIDs(g.dir) }

// groupPIDs lists the processes in a cgroup and below.
func groupPIDs(dir string) []int {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for s := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(s); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return pids
	}
	for _, e := range entries {
		if e.IsDir() {
			pids = append(pids, groupPIDs(filepath.Join(dir, e.Name()))...)
		}
	}
	return pids
}
