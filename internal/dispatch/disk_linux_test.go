package dispatch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

const diskEnv = "TOWPATH_DISPATCH_TEST_DISK"

// TestARealFullDiskRefusesSubmissionsAndLosesNothing runs once more in a mount namespace of its own, with a small disk there.
func TestARealFullDiskRefusesSubmissionsAndLosesNothing(t *testing.T) {
	if dir := os.Getenv(diskEnv); dir != "" {
		fillDisk(t, dir)
		return
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), diskEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || strings.Contains(string(out), "mount: operation not permitted") {
		t.Skipf("skipped: this host allows no user namespaces: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fillDisk(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it ends with the namespace anyway
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "towpath.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.RegisterOwner(t.Context(), towpath.Owner{ID: "owner", Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w := beginOver(t, db, db)
	w.hello("s", 1)
	n := w.submit(job(20))
	o := w.offer()

	filler := filepath.Join(dir, "filler")
	if err := fill(filler); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	refusal := w.untilRefused()
	if !strings.Contains(refusal.Error(), "disk full") || !strings.Contains(refusal.Error(), dir) {
		t.Errorf("refused with %q", refusal)
	}
	if err := w.loop.Call(t.Context(), towpath.Started{Session: "s", Attempt: o.Attempt}); towpath.CodeOf(err) != towpath.CodeUnavailable {
		t.Errorf("a report: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for _, in := range answers(o) {
		w.again(in)
	}
	w.workers(1)
	w.watch(n, 1)
	w.passed(n, 20)
}

func fill(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size := 64 << 10; size >= 1; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	return err
}

// untilRefused submits builds for no session until what room there was in the file is used up.
func (w *world) untilRefused() error {
	w.Helper()
	j := job(50)
	j.Labels = []string{"nobody"}
	for range 500 {
		if _, err := w.loop.Submit(w.Context(), "project", towpath.Submit{Job: j}); err != nil {
			if towpath.CodeOf(err) != towpath.CodeUnavailable {
				w.Fatal(err)
			}
			return err
		}
	}
	w.Fatal("500 builds found room on a full disk")
	return nil
}
