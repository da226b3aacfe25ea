package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// junit is the runner of commands that leave JUnit files. Only files that this attempt wrote count: those in its own
// folder for reports, and those that match the job's pattern and are new or changed.
type junit struct{}

func (junit) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	before, err := stamps(s.Dir, s.Job.Report.Glob)
	if err != nil {
		return Command{}, nil, err
	}
	return s.Base, &junitReading{outputReading: newOutputReading(s), before: before}, nil
}

type junitReading struct {
	*outputReading
	before map[string]stamp
}

// stamp tells whether a file was written again.
type stamp struct {
	size int64
	at   time.Time
	info fs.FileInfo
}

func (s stamp) same(o stamp) bool {
	return s.size == o.size && s.at.Equal(o.at) && os.SameFile(s.info, o.info)
}

// stamps looks at the files below dir that match a pattern.
func stamps(dir, pattern string) (map[string]stamp, error) {
	found := make(map[string]stamp)
	if pattern == "" {
		return found, nil
	}
	base := "."
	if filepath.IsAbs(pattern) {
		base, pattern = doublestar.SplitPattern(filepath.ToSlash(pattern))
	} else {
		pattern = path.Clean(pattern)
		base = dir
	}
	err := doublestar.GlobWalk(os.DirFS(base), pattern, func(name string, d fs.DirEntry) error {
		full := filepath.Join(base, filepath.FromSlash(name))
		info, err := os.Stat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode().IsRegular():
			found[full] = stamp{info.Size(), info.ModTime(), info}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for reports %s: %w", pattern, err)
	}
	return found, nil
}

// written lists the report files of this attempt, sorted.
func (r *junitReading) written() ([]string, error) {
	var files []string
	now, err := stamps(r.spec.Dir, r.spec.Job.Report.Glob)
	if err != nil {
		return nil, err
	}
	for name, s := range now {
		if was, ok := r.before[name]; !ok || !s.same(was) {
			files = append(files, name)
		}
	}
	if r.spec.Reports != "" {
		own, err := stamps(r.spec.Reports, "**/*.xml")
		if err != nil {
			return nil, err
		}
		for name := range own {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

func (r *junitReading) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	files, err := r.written()
	if err != nil {
		return nil, err
	}
	var cases []report.FileCase
	var reader report.JUnit
	fault := ""
	for _, name := range files {
		if err := r.read(&reader, name, &cases); err != nil && fault == "" {
			fault = fmt.Sprintf("the report %s cannot be read: %s", r.shown(name), firstLine(err.Error()))
		}
	}
	if len(files) == 0 {
		fault = "the command left no JUnit file"
		if glob := r.spec.Job.Report.Glob; glob != "" {
			fault += " that matches " + glob
		}
	}
	if len(r.spec.Units) == 1 {
		return map[int]towpath.AtomReport{0: r.one(report.Plain(cases), fault, end)}, nil
	}
	return r.several(cases, fault, end), nil
}

func (r *junitReading) read(reader *report.JUnit, name string, cases *[]report.FileCase) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading: nothing can be lost
	return reader.Read(io.Reader(f), func(c report.FileCase) error {
		*cases = append(*cases, c)
		return nil
	})
}

func (r *junitReading) shown(name string) string {
	if rel, err := filepath.Rel(r.spec.Dir, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return filepath.Base(name)
}

// one is the report of an atom to which all cases belong.
func (r *junitReading) one(cases []towpath.Case, fault string, end Ended) towpath.AtomReport {
	status := r.byStatus(end)
	one := caseReport(cases)
	one.Duration, one.ExitCode = status.Duration, status.ExitCode
	switch {
	case end.Stopped != "":
		one.Outcome, one.Reason, one.Failed = status.Outcome, status.Reason, nil
	case one.Outcome == towpath.OutcomeFailed:
	case status.Outcome != towpath.OutcomePassed:
		one.Outcome, one.Reason = status.Outcome, status.Reason
		if len(cases) > 0 {
			one.Reason += ", though no test failed"
		}
	case fault != "":
		one.Outcome, one.Reason = towpath.OutcomeFailed, fault
	case len(cases) == 0:
		one.Outcome, one.Reason = towpath.OutcomeSkipped, "the report holds no test"
	}
	return one
}

// several gives each atom of a batch the cases that name it. An atom that none names, and every atom that is not known to
// have failed if there is a fault that nobody is named for, is unclear and runs alone.
func (r *junitReading) several(cases []report.FileCase, fault string, end Ended) map[int]towpath.AtomReport {
	byUnit := make([][]towpath.Case, len(r.spec.Units))
	loose := "" // a failed case whose atom is not known
	for _, c := range cases {
		if i := owner(r.spec.Units, c); i >= 0 {
			byUnit[i] = append(byUnit[i], c.Case)
		} else if c.State == towpath.CaseFailed && loose == "" {
			loose = c.Name
		}
	}
	status := r.byStatus(end)
	explained := false
	reports := make(map[int]towpath.AtomReport, len(r.spec.Units))
	for i := range r.spec.Units {
		reports[i] = caseReport(byUnit[i])
		explained = explained || reports[i].Outcome == towpath.OutcomeFailed
	}
	for i, one := range reports {
		switch {
		case one.Outcome == towpath.OutcomeFailed:
			one.ExitCode = end.ExitCode
		case end.Stopped != "":
			one.Outcome, one.Reason = status.Outcome, status.Reason
		case fault != "":
			one.Outcome, one.Reason = towpath.OutcomeUnclear, fault
		case loose != "":
			one.Outcome, one.Reason = towpath.OutcomeUnclear, "the report does not say to which atom the failed case "+loose+" belongs"
		case len(byUnit[i]) == 0:
			one.Outcome, one.Reason = towpath.OutcomeUnclear, "the report names no case of this atom"
		case !clean(status) && !explained:
			one.Outcome, one.Reason = towpath.OutcomeUnclear, status.Reason+", though no test failed"
		}
		for _, c := range one.Cases {
			one.Duration += c.Duration
		}
		reports[i] = one
	}
	return reports
}

// owner is the unit that a case names by its file, its suites or its class, or -1 if none or several could be meant.
func owner(units []towpath.OfferedUnit, c report.FileCase) int {
	found := -1
	for i, u := range units {
		if !names(u.Name, c) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

func names(atom string, c report.FileCase) bool {
	atom = path.Clean(filepath.ToSlash(atom))
	for _, said := range append([]string{c.File, c.Class}, c.Suites...) {
		if said == "" {
			continue
		}
		file := path.Clean(filepath.ToSlash(said))
		if file == atom || strings.HasSuffix(file, "/"+atom) {
			return true
		}
	}
	dotted := strings.ReplaceAll(strings.TrimSuffix(atom, path.Ext(atom)), "/", ".")
	return path.Ext(atom) != "" && (c.Class == dotted || strings.HasPrefix(c.Class, dotted+"."))
}
