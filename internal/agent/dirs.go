package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// dirs is what an attempt has of its own on disk: two directories and the file that names its atoms. They belong to a slot,
// and are handed from attempt to attempt, empty: most tests never touch them.
type dirs struct {
	root, reports, artifacts, atoms string
}

// slotDirs makes the directories of a slot, or makes sure that nothing is left in them.
func slotDirs(scratch string, slot int) (d dirs, err error) {
	d.root = filepath.Join(scratch, "slot-"+strconv.Itoa(slot))
	d.reports, d.artifacts = filepath.Join(d.root, "reports"), filepath.Join(d.root, "artifacts")
	d.atoms = filepath.Join(d.root, "atoms")
	if err := os.MkdirAll(d.root, 0o700); err != nil { // also what somebody who made room has removed
		return dirs{}, fmt.Errorf("make the attempt's directory: %w", err)
	}
	return d, errors.Join(fresh(d.reports), fresh(d.artifacts))
}

// writeAtoms puts names into the atoms file, one a line. A file that was there is overwritten and then cut to size, not
// emptied first: some file systems write a file to the disk at once that was emptied, for each command.
func (d dirs) writeAtoms(names []string) (err error) {
	text := ""
	if len(names) > 0 {
		text = strings.Join(names, "\n") + "\n"
	}
	f, err := os.OpenFile(d.atoms, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Truncate(int64(len(text))), f.Close())
	}
	if err != nil {
		return fmt.Errorf("write the attempt's atoms file: %w", err)
	}
	return nil
}

// fresh makes dir an empty directory.
func fresh(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		_, err = f.Readdirnames(1)
		_ = f.Close() // it was only read
		if errors.Is(err, io.EOF) {
			return nil
		}
		err = removeAll(dir)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	} else {
		err = removeAll(dir) // its permissions were changed
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", dir, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

// removeAll removes a tree, also where a test has taken the write permission from its directories.
func removeAll(root string) error {
	err := os.RemoveAll(root)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) // what this cannot help, the removal reports
		}
		return nil
	})
	return os.RemoveAll(root)
}
