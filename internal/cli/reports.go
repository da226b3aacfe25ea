package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

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

// writeFile writes a file so that it is either whole or not there. An empty path writes nothing.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	failed := func(err error) error {
		return towpath.Errorf(towpath.CodeUnavailable, "the report %s cannot be written: %w", path, err)
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
