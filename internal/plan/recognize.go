package plan

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// Candidate is one way in which a project can be tested, found by looking at its files.
type Candidate struct {
	Kind string      // the runner, as go or pytest; also how the candidate is chosen by name
	Why  string      // one line for people: which files say so, and what is left out
	Weak bool        // file names alone say so, no configuration: it gives way to any candidate that is not weak
	Job  towpath.Job // complete and named "test"; with several candidates Choose names it after its kind
}

// recognizers find candidates, in order of preference: what compiles first, then the rest by how sure their signs are.
// Each returns nil if its runner is not used here. They only look, and never execute anything.
var recognizers = []func(fs.FS) (*Candidate, error){
	recognizeGo,
	recognizeCargo,
	recognizePytest,
	recognizeJest,
	recognizeVitest,
	recognizeNode,
	recognizeRSpec,
	recognizePHPUnit,
}

// lookedFor says what recognition knows, for the message when nothing fits. Each recognizer's file adds its share.
var lookedFor = []string{"go.mod", "go.work", "pytest.ini", "pyproject.toml", "test_*.py", "package.json", "*.test.js", "Cargo.toml", ".rspec", "*_spec.rb", "phpunit.xml", "composer.json"}

// Recognize returns every way of testing the project whose root is fsys, the preferred one first. None is no error.
func Recognize(fsys fs.FS) ([]Candidate, error) {
	var found []Candidate
	for _, recognize := range recognizers {
		c, err := recognize(fsys)
		if err != nil {
			return nil, err
		}
		if c != nil {
			found = append(found, *c)
		}
	}
	sure := slices.DeleteFunc(slices.Clone(found), func(c Candidate) bool { return c.Weak })
	if len(sure) > 0 {
		return sure, nil
	}
	return found, nil
}

// Choose picks the job to run: the only candidate, or the one that name names by its kind. If several fit and none is
// named, or none fits, the error says what was found and how to go on.
func Choose(found []Candidate, name string) (towpath.Job, error) {
	if len(found) == 0 {
		return towpath.Job{}, towpath.Errorf(towpath.CodeConfig,
			"there is no %s, and no project that Towpath recognises (looked for %s): "+
				"write the file, or say what to run: towpath run -- COMMAND", FileName, strings.Join(lookedFor, ", "))
	}
	if len(found) == 1 && (name == "" || name == found[0].Job.Name || name == found[0].Kind) {
		return found[0].Job, nil
	}
	kinds := make([]string, len(found))
	signs := make([]string, len(found))
	for i, c := range found {
		if name == c.Kind {
			c.Job.Name = c.Kind
			return c.Job, nil
		}
		kinds[i] = c.Kind
		signs[i] = c.Kind + " (" + c.Why + ")"
	}
	if name != "" {
		if len(found) == 1 {
			kinds = []string{found[0].Job.Name}
		}
		if near := nearest(name, kinds); near != "" {
			return towpath.Job{}, towpath.Errorf(towpath.CodeNotFound, "there is no job %q: did you mean %q?", name, near)
		}
		return towpath.Job{}, towpath.Errorf(towpath.CodeNotFound,
			"there is no job %q: there is no %s, and recognition found %s", name, FileName, strings.Join(kinds, ", "))
	}
	return towpath.Job{}, towpath.Errorf(towpath.CodeConfig,
		"several kinds of tests fit here: %s; choose one with towpath run %s, or write all to %s with towpath init",
		strings.Join(signs, " and "), strings.Join(kinds, " or towpath run "), FileName)
}

// JobsOf returns the jobs that towpath init writes for the candidates, by name and in order.
func JobsOf(found []Candidate) []towpath.Job {
	jobs := make([]towpath.Job, len(found))
	for i, c := range found {
		jobs[i] = c.Job
		if len(found) > 1 {
			jobs[i].Name = c.Kind
		}
	}
	return jobs
}

// recognized starts a candidate's job from the defaults.
func recognized(atoms towpath.AtomSource, run string, report towpath.ReportKind) towpath.Job {
	j := Defaults()
	j.Name = "test"
	j.Atoms = atoms
	j.Run = run
	j.Report = towpath.Report{Kind: report}
	j.PerAtom = startsPerAtom(j)
	return j
}

// maxLooked bounds how many files recognition looks at in a tree that it does not know.
const maxLooked = 50_000

// skippedDirs hold what tools wrote or fetched, never a project's own tests.
var skippedDirs = []string{"node_modules", "bower_components", "vendor", "venv", "env", "build", "dist", "target", "__pycache__", "_build", "CVS"}

// look calls see with each file below root, in lexical order, leaving out folders that hold no project's own tests: dot
// folders, installed packages, build output, virtual environments. It ends early when see returns false. A folder that
// cannot be read is passed by: recognition is not the place to fail on it.
func look(fsys fs.FS, root string, see func(name string) bool) error {
	seen := 0
	err := fs.WalkDir(fsys, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == root {
				return err
			}
			return fs.SkipDir
		}
		if d.IsDir() {
			if name != root && skipDir(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		seen++
		if seen > maxLooked || !see(name) {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func skipDir(fsys fs.FS, name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, ".egg") || slices.Contains(skippedDirs, base) ||
		exists(fsys, path.Join(name, "pyvenv.cfg"))
}

func exists(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// text reads a file that recognition wants to look into; one that is missing, unreadable or too large is empty.
func text(fsys fs.FS, name string) string {
	info, err := fs.Stat(fsys, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxFileSize {
		return ""
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return string(data)
}

// shellWord quotes a word for shell text if it has to be.
func shellWord(word string) string {
	plain := func(c rune) bool {
		return strings.ContainsRune("%+,-./:=@_", c) || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	if word != "" && !strings.ContainsFunc(word, func(c rune) bool { return !plain(c) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
