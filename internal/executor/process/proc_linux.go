package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of times in /proc, the same on all architectures that Go runs on.
const ticksPerSecond = 100

// procStat is what is used of /proc/PID/stat.
type procStat struct {
	pid, ppid, pgrp, session int
	state                    byte
	threads                  int
	start                    uint64 // ticks after boot
	cpu                      uint64 // ticks, with children that were waited for
	comm                     string
}

// dead reports whether the process has ended and only waits to be reaped.
func (s procStat) dead() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

func readStat(pid int) (procStat, bool) {
	var buf [1024]byte
	b, err := readFile("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return procStat{}, false
	}
	return parseStat(b)
}

func parseStat(b []byte) (procStat, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return procStat{}, false
	}
	s := procStat{comm: string(b[open+1 : end])}
	s.pid, _ = strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return procStat{}, false
	}
	num := func(i int) uint64 { n, _ := strconv.ParseUint(f[i-3], 10, 64); return n } // by the field numbers of proc(5)
	s.state = f[0][0]
	s.ppid, s.pgrp, s.session = int(num(4)), int(num(5)), int(num(6))
	s.cpu = num(14) + num(15) + num(16) + num(17)
	s.threads, s.start = int(num(20)), num(22)
	return s, true
}

// readFile reads a small file of the kernel's with one buffer and no poller.
func readFile(path string, buf []byte) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	n := 0
	for n < len(buf) {
		m, err := retry(func() (int, error) { return unix.Read(fd, buf[n:]) })
		if err != nil {
			return nil, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

// writeControl writes to a file of the kernel's, which it never creates.
func writeControl(path string, value []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	return errors.Join(err, f.Close())
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// processes lists the numbers of all processes.
func processes() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()                //nolint:errcheck // it was only read
	names, _ := d.Readdirnames(-1) // what could be read is used
	pids := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// command is what people call a process: its arguments, or its name if it has none.
func command(pid int) string {
	buf := make([]byte, 256)
	b, err := readFile("/proc/"+strconv.Itoa(pid)+"/cmdline", buf)
	if line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")); err == nil && line != "" {
		return strings.ToValidUTF8(line, "?")
	}
	if s, ok := readStat(pid); ok {
		return "[" + s.comm + "]"
	}
	return "?"
}

// ticks is the time since boot in the unit of procStat.start.
func ticks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(time.Duration(ts.Nano()) / (time.Second / ticksPerSecond))
}

func vmstat(key string) int64 {
	buf := make([]byte, 16<<10)
	b, err := readFile("/proc/vmstat", buf)
	if err != nil {
		return 0
	}
	return field(b, key)
}

// field returns the number that follows key at the start of a line.
func field(b []byte, key string) int64 {
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte(key)); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			return n
		}
	}
	return 0
}

// markName is the environment variable that marks the processes of tasks. Its value is the tokens of the tasks that the
// process belongs to, outermost first: a task may itself run Towpath.
const markName = "TOWPATH_TASK="

// owner is a process that runs tasks, named so that no other process ever has the same name until the next boot.
type owner struct {
	namespace string // of process numbers
	pid       int
	start     uint64
}

func self() (owner, error) {
	pid := os.Getpid()
	s, ok := readStat(pid)
	if !ok {
		return owner{}, fmt.Errorf("read /proc/%d/stat: is /proc mounted?", pid)
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return owner{}, fmt.Errorf("read namespace of process numbers: %w", err)
	}
	return owner{namespace: strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]"), pid: pid, start: s.start}, nil
}

func (o owner) String() string { return fmt.Sprintf("%s-%d-%d", o.namespace, o.pid, o.start) }

func (o owner) token(id string) string { return o.String() + "." + id }

// parseOwner reads what String and token write.
func parseOwner(s string) (o owner, ok bool) {
	s, _, _ = strings.Cut(s, ".")
	f := strings.Split(s, "-")
	if len(f) != 3 {
		return owner{}, false
	}
	pid, err := strconv.Atoi(f[1])
	start, err2 := strconv.ParseUint(f[2], 10, 64)
	return owner{namespace: f[0], pid: pid, start: start}, err == nil && err2 == nil
}

// alive reports whether the owner, which must be of this process's namespace, still runs.
func (o owner) alive() bool {
	s, ok := readStat(o.pid)
	return ok && s.start == o.start && !s.dead()
}

// mark adds a token to an environment.
func mark(env []string, token string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if outer, ok := strings.CutPrefix(kv, markName); ok {
			token = outer + "/" + token
			continue
		}
		out = append(out, kv)
	}
	return append(out, markName+token)
}

// marks returns the tokens of a process, outermost first; none if it has none or is another user's.
func marks(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	for len(b) > 0 {
		kv, rest, _ := bytes.Cut(b, []byte{0})
		if v, ok := bytes.CutPrefix(kv, []byte(markName)); ok {
			return strings.Split(string(v), "/")
		}
		b = rest
	}
	return nil
}
