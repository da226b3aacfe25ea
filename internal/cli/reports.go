package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/report"
)

// writeReports writes the merged files that were asked for.
func (c *command) writeReports(ctx context.Context, r *client.Client, b towpath.BuildInfo, o runOptions) error {
	if o.junit == "" && o.report == "" {
		return nil
	}
	var atoms []towpath.AtomInfo
	var cases []towpath.CaseInfo
	for a, err := range r.Atoms(ctx, b.Number) {
		if err != nil {
			return err
		}
		atoms = append(atoms, a)
	}
	for k, err := range r.Cases(ctx, b.Number) {
		if err != nil {
			return err
		}
		cases = append(cases, k)
	}
	m := report.Merge(b, atoms, cases)
	return errors.Join(
		writeFile(o.junit, func(w io.Writer) error { return report.WriteJUnit(w, m) }),
		writeFile(o.report, func(w io.Writer) error { return report.WriteJSON(w, m) }))
}

// checkReports refuses, before anything runs, files that could not be written in the end.
func checkReports(o runOptions) error {
	for _, file := range []string{o.junit, o.report} {
		if file == "" {
			continue
		}
		dir := filepath.Dir(file)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return towpath.Errorf(towpath.CodeUsage, "the report %s cannot be written: there is no directory %s; make it first", file, dir)
		}
	}
	return nil
}

// writeFile writes a file so that it is either whole or not there. What is no regular file, as /dev/stdout, is written as
// it is: to put a file in its place would harm others. An empty path writes nothing.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	failed := func(err error) error {
		return towpath.Errorf(towpath.CodeUnavailable, "the report %s cannot be written: %w", path, err)
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		flags := os.O_WRONLY | os.O_TRUNC
		if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
			flags = os.O_WRONLY | os.O_APPEND // it may be a file that holds our own output
		}
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			return failed(err)
		}
		w := bufio.NewWriter(f)
		if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
			return failed(err)
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return failed(err)
	}
	w := bufio.NewWriter(f)
	err = errors.Join(write(w), w.Flush(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return failed(errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
