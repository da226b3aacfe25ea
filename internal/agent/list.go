package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// list finds the atoms of a job by its command or its globs.
func (a *attempt) list(done *towpath.Done) error {
	source := a.offer.Job.Atoms
	if len(source.Glob) > 0 {
		atoms, err := glob(a.ctx, a.s.cfg.Dir, source.Glob)
		if err != nil {
			done.Outcome, done.Reason = towpath.OutcomeFailed, err.Error()
			return nil // a bad glob is a result
		}
		done.Outcome, done.Atoms = towpath.OutcomePassed, atoms
		return nil
	}
	if source.Command == "" {
		return errors.New("the job has neither a command nor a glob that lists its atoms")
	}
	env, err := a.environ(nil)
	if err != nil {
		return err
	}
	t := a.task(shell(env, source.Command, nil), env)
	t.Limit = a.offer.Limit
	last := &lastLines{limit: 2 << 10}
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	out := &boundedBuffer{limit: a.s.cfg.ListLimit, full: stop} // what prints for ever has no end to wait for
	t.Stdout = out
	t.Stderr = &logWriter{ctx: a.ctx, log: a.log, unit: -1, last: last}
	r, err := a.execute(ctx, -1, t)
	if err != nil {
		return fmt.Errorf("start the command that lists the atoms: %w", err)
	}
	done.Outcome, done.Reason = outcomeOf(r, t)
	switch {
	case out.over:
		done.Outcome = towpath.OutcomeFailed
		done.Reason = fmt.Sprintf("the command printed more than %d MiB", a.s.cfg.ListLimit>>20)
	case done.Outcome == towpath.OutcomePassed:
		atoms, err := lines(out.Bytes())
		if err != nil {
			done.Outcome, done.Reason = towpath.OutcomeFailed, "listing atoms: "+err.Error()
			break
		}
		done.Atoms = atoms
		return nil
	default:
		done.Reason = a.explainList(r, last, out, done.Reason)
	}
	a.log.write(a.ctx, -1, out.Bytes())
	return nil
}

// explainList says why listing failed, with what the command said last, on standard error or else on standard output.
func (a *attempt) explainList(r executor.Result, last *lastLines, out *boundedBuffer, reason string) string {
	if len(last.buf) == 0 && r.End == executor.EndExited {
		_, _ = last.Write(out.Bytes())
	}
	return last.appendTo(reason)
}

// lines splits what a command printed into atoms, one a line. Empty lines are none.
func lines(out []byte) (atoms []string, err error) {
	n := 0
	for line := range strings.Lines(string(out)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case strings.ContainsRune(line, 0):
			return nil, fmt.Errorf("line %d has a NUL byte, which no argument can carry", n)
		case !utf8.ValidString(line):
			return nil, fmt.Errorf("line %d is not UTF-8: %.60q", n, line)
		}
		atoms = append(atoms, line)
	}
	return atoms, nil
}

// glob returns the files below dir that match any of the patterns, sorted, each once. It follows no symbolic link to a
// directory, and leaves .git and node_modules out unless a pattern names them.
func glob(ctx context.Context, dir string, patterns []string) ([]string, error) {
	found := make(map[string]bool)
	for _, pattern := range patterns {
		clean := strings.TrimPrefix(pattern, "./")
		if !doublestar.ValidatePattern(clean) || strings.HasPrefix(clean, "/") || slices.Contains(strings.Split(clean, "/"), "..") {
			return nil, fmt.Errorf("glob %q is not valid: use a path within the workspace, with *, **, ?, [a-z] and {a,b}", pattern)
		}
		tree := pruned{FS: os.DirFS(dir), ctx: ctx, pattern: clean}
		err := doublestar.GlobWalk(tree, clean, func(path string, e fs.DirEntry) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if e.Type()&fs.ModeSymlink != 0 {
				if info, err := fs.Stat(tree.FS, path); err != nil || info.IsDir() {
					return nil //nolint:nilerr // a dangling link is no file
				}
			}
			if !utf8.ValidString(path) {
				return fmt.Errorf("the name %q is not UTF-8", path)
			}
			found[path] = true
			return nil
		}, doublestar.WithFilesOnly(), doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
		if err != nil {
			return nil, fmt.Errorf("glob %q in %s: %w", pattern, dir, err)
		}
	}
	atoms := make([]string, 0, len(found))
	for path := range found {
		atoms = append(atoms, path)
	}
	slices.Sort(atoms)
	return atoms, nil
}

// pruned is a tree without the directories that nobody keeps tests in.
type pruned struct {
	fs.FS
	ctx     context.Context //nolint:containedctx // of the one walk that it is made for; fs.FS has no way to pass it
	pattern string
}

// ReadDir lists a directory of the tree.
func (p pruned) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := context.Cause(p.ctx); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(p.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		switch n := e.Name(); n {
		case ".git", "node_modules":
			return e.IsDir() && !strings.Contains(p.pattern, n)
		}
		return false
	}), err
}

// boundedBuffer keeps the first bytes that are written to it.
type boundedBuffer struct {
	bytes.Buffer
	limit int
	over  bool
	full  func() // called when there is more; nil: nobody minds
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.limit - b.Len(); n > room {
		if !b.over && b.full != nil {
			b.full()
		}
		p, b.over = p[:room], true
	}
	_, err := b.Buffer.Write(p)
	return n, err
}
