package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dirs is what an attempt has of its own on disk: two directories and the file that names its atoms. They are made with
// the attempt's first command and emptied between commands, for most tests never touch them.
type dirs struct {
	root, reports, artifacts, atoms string
}

func makeDirs(scratch, attempt string) (d dirs, err error) {
	d.root = filepath.Join(scratch, attempt)
	d.reports, d.artifacts = filepath.Join(d.root, "reports"), filepath.Join(d.root, "artifacts")
	d.atoms = filepath.Join(d.root, "atoms")
	for _, dir := range []string{d.root, d.reports, d.artifacts} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return d, fmt.Errorf("make the attempt's directories: %w", err)
		}
	}
	return d, nil
}

// writeAtoms puts names into the atoms file, one a line.
func (d dirs) writeAtoms(names []string) error {
	if err := os.WriteFile(d.atoms, []byte(strings.Join(names, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the attempt's atoms file: %w", err)
	}
	return nil
}

// empty makes the reports directory as good as new.
func (d dirs) empty() error {
	if isEmpty(d.reports) {
		return nil
	}
	if err := removeAll(d.reports); err != nil {
		return fmt.Errorf("empty the reports directory: %w", err)
	}
	if err := os.Mkdir(d.reports, 0o700); err != nil {
		return fmt.Errorf("make the reports directory: %w", err)
	}
	return nil
}

func isEmpty(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

func (d dirs) remove() error {
	if d.root == "" {
		return nil
	}
	return removeAll(d.root)
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
