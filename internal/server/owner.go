package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"

	"github.com/towpath/towpath"
)

// maxSocketPath is the longest path that a Unix socket can have on every system that Towpath runs on.
const maxSocketPath = 100

// ownership is what says that this process lives and decides for its builds: a lock file that the system unlocks when
// the process ends, however it ends.
type ownership struct {
	towpath.Owner
	lock    *flock.Flock
	scratch string // directory for temporary files, which are gone with the owner
}

func ownersDir(stateDir string) string { return filepath.Join(stateDir, "owners") }

func scratchDir(stateDir, id string) string { return filepath.Join(stateDir, "scratch", id) }

func lockFile(stateDir, id string) string { return filepath.Join(ownersDir(stateDir), id+".lock") }

// own takes a new ownership in the state directory.
func own(stateDir string, now time.Time) (*ownership, error) {
	id := rand.Text()
	if err := os.MkdirAll(ownersDir(stateDir), 0o700); err != nil {
		return nil, stateError(stateDir, err)
	}
	socket, err := socketPath(stateDir, id)
	if err != nil {
		return nil, stateError(stateDir, err)
	}
	lock := flock.New(lockFile(stateDir, id), flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err == nil && !held {
		err = errors.New("somebody holds a lock that was just made")
	}
	if err != nil {
		return nil, stateError(stateDir, err)
	}
	o := &ownership{towpath.Owner{ID: id, PID: os.Getpid(), Socket: socket, Started: now}, lock, scratchDir(stateDir, id)}
	if err := os.MkdirAll(o.scratch, 0o700); err != nil { // after the lock: sweep takes a directory without one for a dead owner's
		return nil, errors.Join(stateError(stateDir, err), o.release())
	}
	return o, nil
}

// release gives the ownership up. Its builds must have ended.
func (o *ownership) release() error {
	return errors.Join(os.RemoveAll(o.scratch), remove(o.Socket), remove(o.lock.Path()), o.lock.Unlock())
}

// sweep removes what owners that were killed left on the disk.
func sweep(stateDir string) error {
	left, err := os.ReadDir(filepath.Join(stateDir, "scratch"))
	if err != nil {
		return fmt.Errorf("list directories of temporary files: %w", err)
	}
	var errs []error
	for _, e := range left {
		socket, err := socketPath(stateDir, e.Name())
		errs = append(errs, err)
		if !alive(stateDir, towpath.Owner{ID: e.Name(), Socket: socket}) {
			errs = append(errs, os.RemoveAll(scratchDir(stateDir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// alive says whether the process that registered as o still lives. The lock and the socket of one that does not are removed.
func alive(stateDir string, o towpath.Owner) bool {
	path := lockFile(stateDir, o.ID)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	lock := flock.New(path)
	got, err := lock.TryLock()
	if err != nil || !got {
		return true // held, or it cannot be told: a live build must not be called dead
	}
	_ = errors.Join(remove(o.Socket), remove(path), lock.Unlock()) // what stays is swept by the next
	return false
}

// socketPath is in the state directory, or where its path would be too long, in a directory of this user below the
// system's one for temporary files.
func socketPath(stateDir, id string) (string, error) {
	path := filepath.Join(ownersDir(stateDir), id+".sock")
	if len(path) <= maxSocketPath {
		return path, nil
	}
	dir := filepath.Join(os.TempDir(), "towpath-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make directory of sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at directory of sockets: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ours(info) {
		return "", fmt.Errorf("%s is another user's or open to others: remove it", dir)
	}
	return filepath.Join(dir, id+".sock"), nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stateError says what is wrong with the state directory and what to do.
func stateError(stateDir string, err error) error {
	message := fmt.Sprintf("the state directory %s cannot be used: %v", stateDir, err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		message += "; make it writable for this user, or name another with --state-dir"
	default:
		message += "; free it, or name another with --state-dir"
	}
	return &towpath.Error{Code: towpath.CodeUnavailable, Message: message, Err: err}
}
