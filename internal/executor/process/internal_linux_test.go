package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

func TestTheOwnCgroupIsFoundOnAllKindsOfHost(t *testing.T) {
	t.Parallel()
	const (
		hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		unified   = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		container = "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
		spaced    = `30 23 0:26 / /mnt/c\040group rw - cgroup2 cgroup rw` + "\n"
		above     = "30 23 0:26 /other /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	)
	for _, c := range []struct {
		about, own, mounts, fstype, controller, want string
	}{
		{"hybrid v2", "4:memory:/a/b\n0::/\n", hybrid, "cgroup2", "", "/sys/fs/cgroup/unified"},
		{"hybrid v1", "4:memory:/a/b\n0::/\n", hybrid, "cgroup", "memory", "/sys/fs/cgroup/memory/a/b"},
		{"v1 controllers mounted together", "3:cpu,memory:/x\n", "35 31 0:32 / /cg rw - cgroup cgroup rw,cpu,memory\n", "cgroup", "memory", "/cg/x"},
		{"unified", "0::/user.slice/session-3.scope\n", unified, "cgroup2", "", "/sys/fs/cgroup/user.slice/session-3.scope"},
		{"bind mount into a container", "0::/docker/abc/child\n", container, "cgroup2", "", "/sys/fs/cgroup/child"},
		{"path with a space", "0::/x\n", spaced, "cgroup2", "", "/mnt/c group/x"},
		{"own cgroup outside of the mount", "0::/mine\n", above, "cgroup2", "", ""},
		{"own cgroup above the namespace", "0::/../x\n", unified, "cgroup2", "", ""},
		{"no v2", "4:memory:/a\n", hybrid, "cgroup2", "", ""},
		{"no mount", "0::/\n", "", "cgroup2", "", ""},
	} {
		got, err := cgroupDir(c.own, c.mounts, c.fstype, c.controller)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: got %q, %v, want %q", c.about, got, err, c.want)
		}
	}
}

func TestAProcessNameCannotForgeItsStat(t *testing.T) {
	t.Parallel()
	line := "42 (a) R 1 (x) S 7 42 41 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 3 0 12345 0 0\n"
	got, ok := parseStat([]byte(line))
	want := procStat{pid: 42, ppid: 7, pgrp: 42, session: 41, state: 'S', threads: 3, start: 12345, cpu: 125, comm: "a) R 1 (x"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(procStat{})); !ok || diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "1", "1 (x", "1 (x) S 1", ")(", "1 )x("} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestAnOwnerIsNamedAndReadBack(t *testing.T) {
	t.Parallel()
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	if !me.alive() {
		t.Error("this process is taken for dead")
	}
	for _, s := range []string{me.String(), me.token("build-1.atom"), me.String() + ".3"} {
		if got, ok := parseOwner(s); !ok || got != me {
			t.Errorf("%q: got %+v, %v", s, got, ok)
		}
	}
	later := me
	later.start++
	if later.alive() {
		t.Error("a number used again is taken for its former owner")
	}
	for _, bad := range []string{"", "1-2", "a-b-c", "1-2-3-4"} {
		if _, ok := parseOwner(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestMarksOfNestedTasksAddUp(t *testing.T) {
	t.Parallel()
	got := mark([]string{"A=1", "TOWPATH_TASK=outer", "B=2"}, "inner")
	if diff := cmp.Diff([]string{"A=1", "B=2", "TOWPATH_TASK=outer/inner"}, got); diff != "" {
		t.Error(diff)
	}
}

// The memory controller of cgroup v2 is rarely there where tests run, so its files are plain ones here.
func TestAMemoryLimitIsWrittenAndItsKillsAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"memory.max": "max", "memory.swap.max": "max", "memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := &group{dir: dir, fd: -1, events: -1, stat: -1, counts: true}
	if err := g.limit(64 << 20); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "memory.max"))
	if err != nil || string(got) != "67108864" {
		t.Errorf("memory.max is %q, %v", got, err)
	}
	if n := g.oomKills(); n != 2 {
		t.Errorf("%d kills were read, want 2", n)
	}
}

// A program is a pipe here that nobody writes to: opening it waits, as on a file system that is away.
func TestAStartThatHangsIsGivenUpAndUndone(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]bool{"it comes about later": true, "it fails later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := New(Config{})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			program, pipe, began := filepath.Join(dir, "program"), filepath.Join(dir, "pipe"), filepath.Join(dir, "began")
			if err := errors.Join(syscall.Mkfifo(pipe, 0o755), os.Link(pipe, program)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			task := executor.Task{ID: "late", Argv: []string{"./program"}, Dir: dir}
			_, err = e.Run(ctx, task)
			if towpath.CodeOf(err) != towpath.CodeUnavailable || !strings.Contains(err.Error(), "did not start") {
				t.Errorf("got error %v", err)
			}
			// The executor runs other tasks meanwhile.
			res, err := e.Run(t.Context(), executor.Task{ID: "other", Argv: []string{"sh", "-c", "exit 3"}})
			if err != nil || res.ExitCode != 3 {
				t.Errorf("another task: got %+v, %v", res, err)
			}
			if comes {
				script := "#!/bin/sh\ntrap '' TERM\necho $$ >began\nsleep 1000 &\nwhile :; do sleep 1000; done\n"
				if err := errors.Join(os.WriteFile(program+".new", []byte(script), 0o755), os.Rename(program+".new", program)); err != nil {
					t.Fatal(err)
				}
			}
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			closing, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := e.Close(closing); err != nil {
				t.Error(err)
			}
			data, err := os.ReadFile(began)
			if pid := strings.TrimSpace(string(data)); err == nil && pid != "" { // it may have been killed before it wrote its number
				if _, err := os.Stat("/proc/" + pid); err == nil {
					t.Errorf("process %s is left", pid)
				}
			}
		})
	}
}

func TestAHostShortOfSomethingIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	task := executor.Task{Argv: []string{"make"}}
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		err := explainStart(task, "/usr/bin/make", &os.PathError{Op: "fork/exec", Path: "/usr/bin/make", Err: errno})
		if towpath.CodeOf(err) != towpath.CodeUnavailable || !strings.Contains(err.Error(), `"make"`) || !errors.Is(err, errno) {
			t.Errorf("%v: got %v with code %s", errno, err, towpath.CodeOf(err))
		}
	}
}

func TestACgroupThatCannotBeOpenedIsAnErrorAndIsNotLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gs := &groups{dir: dir} // no cgroup: its directories have none of the files that are opened
	if _, err := gs.get(0); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the place", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
