package plan_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

const whole = `version: 1
jobs:
  test:
    atoms: {command: "go list ./..."}
    setup: go build ./...
    run: go test -json "$@"
    teardown: ""
    env: {CGO_ENABLED: "0"}
    labels: [linux]
    slots: 2
    parallel: {max: 50, per_agent: 4}
    batch: 30s
    timeouts: {queue: 1m, setup: 2m, atom: 3m, silence: 4m, build: 2h}
    retries: {failed: 2, lost: 4}
    fail_fast: true
    quarantine:
      - ./flaky/...
      - {pattern: "a::TestX", owner: us, until: 2030-12-31}
    report: gotest
    allow_empty: true
    split: true
`

// small returns a file with one job that has these lines beside atoms and run.
func small(lines string) string {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n  t:\n    atoms: {list: [a, b]}\n    run: echo\n")
	for line := range strings.Lines(lines) {
		b.WriteString("    " + line)
	}
	return b.String()
}

func parse(t *testing.T, text string) *plan.File {
	t.Helper()
	f, err := plan.Parse("towpath.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return f
}

func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	got, err := parse(t, whole).Job("test")
	if err != nil {
		t.Fatal(err)
	}
	want := towpath.Job{
		Name:     "test",
		Atoms:    towpath.AtomSource{Command: "go list ./..."},
		Setup:    "go build ./...",
		Run:      `go test -json "$@"`,
		Env:      map[string]string{"CGO_ENABLED": "0"},
		Labels:   []string{"linux"},
		Slots:    2,
		Parallel: towpath.Parallel{Max: 50, PerAgent: 4},
		Batch:    towpath.Batch{Target: 30 * time.Second},
		Timeouts: towpath.Timeouts{Queue: time.Minute, Setup: 2 * time.Minute, Atom: 3 * time.Minute, Silence: 4 * time.Minute, Build: 2 * time.Hour},
		Retries:  towpath.Retries{Failed: 2, Lost: 4},
		FailFast: true,
		Quarantine: []towpath.Quarantine{
			{Pattern: "./flaky/..."},
			{Pattern: "a::TestX", Owner: "us", Until: time.Date(2030, 12, 31, 23, 59, 59, 0, time.UTC)},
		},
		Report:     towpath.Report{Kind: towpath.ReportGoTest},
		AllowEmpty: true,
		Split:      true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKeysThatAreLeftOutHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	got, err := parse(t, small("")).Job("")
	if err != nil {
		t.Fatal(err)
	}
	want := towpath.Job{
		Name:     "t",
		Atoms:    towpath.AtomSource{List: []string{"a", "b"}},
		Run:      "echo",
		Slots:    1,
		Timeouts: towpath.Timeouts{Queue: 10 * time.Minute, Setup: 10 * time.Minute, Silence: 5 * time.Minute, Build: time.Hour},
		Retries:  towpath.Retries{Lost: 3},
		Report:   towpath.Report{Kind: towpath.ReportNone},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCommandStartsPerAtomWhereItTakesOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		run, batch string
		want       bool
	}{
		{`echo "$@"`, "auto", false},
		{`echo "$@"`, "1", true},
		{`echo "$@"`, "2", false},
		{`echo "$@"`, "1s", false},
		{`echo $TOWPATH_ATOM`, "auto", true},
		{`echo "$TOWPATH_ATOM.log"`, "10", true},
		{`echo ${TOWPATH_ATOM}`, "auto", true},
		{`echo ${TOWPATH_ATOM%.py}`, "auto", true},
		{`echo ${#TOWPATH_ATOM}`, "auto", true},
		{`cat $TOWPATH_ATOMS_FILE`, "auto", false},
		{`cat "${TOWPATH_ATOMS_FILE}"`, "auto", false},
		{`echo TOWPATH_ATOM`, "auto", false},
	} {
		f := parse(t, "version: 1\njobs:\n  t:\n    atoms: {glob: '*'}\n    run: |\n      "+c.run+"\n    batch: "+c.batch+"\n")
		if got := f.Jobs["t"].PerAtom; got != c.want {
			t.Errorf("run %q, batch %s: per atom %v, want %v", c.run, c.batch, got, c.want)
		}
	}
}

func TestAnchorsAndMergesAreFollowed(t *testing.T) {
	t.Parallel()
	f := parse(t, `version: 1
x-base: &base
  atoms: &atoms {glob: ["a/*", b/**]}
  run: &run make "$@"
  slots: 2
  env: &env {A: a, B: b}
x-more: &more {slots: 3, fail_fast: true}
jobs:
  one:
    <<: [*base, *more]
    env: {<<: *env, B: c}
  two:
    atoms: *atoms
    run: *run
    <<: *more
    slots: 7
`)
	one, two := f.Jobs["one"], f.Jobs["two"]
	if one.Slots != 2 || !one.FailFast || one.Run != `make "$@"` {
		t.Errorf("the first merge must win and the second add: %+v", one)
	}
	if diff := cmp.Diff(map[string]string{"A": "a", "B": "c"}, one.Env); diff != "" {
		t.Error(diff)
	}
	if two.Slots != 7 || !two.FailFast || len(two.Atoms.Glob) != 2 {
		t.Errorf("a job's own key must win over a merged one: %+v", two)
	}
	if diff := cmp.Diff([]string{"one", "two"}, f.Order); diff != "" {
		t.Error(diff)
	}
}

func TestShellTextKeepsItsLinesAndLosesCarriageReturns(t *testing.T) {
	t.Parallel()
	text := "version: 1\njobs:\n  t:\n    atoms: {list: [a]}\n    run: |\n      one\n        two: # three\n\n      four\n"
	for _, form := range []string{text, strings.ReplaceAll(text, "\n", "\r\n"), "\ufeff" + text} {
		if got, want := parse(t, form).Jobs["t"].Run, "one\n  two: # three\n\nfour\n"; got != want {
			t.Errorf("run is %q, want %q", got, want)
		}
	}
}

func TestJobIsChosenByName(t *testing.T) {
	t.Parallel()
	job := "    atoms: {list: [a]}\n    run: x\n"
	one := parse(t, "version: 1\njobs:\n  lint:\n"+job)
	two := parse(t, "version: 1\njobs:\n  lint:\n"+job+"  test:\n"+job)
	none := parse(t, "version: 1\njobs:\n  lint:\n"+job+"  vet:\n"+job)
	for _, c := range []struct {
		file       *plan.File
		name, want string
		code       towpath.Code
	}{
		{one, "", "lint", ""},
		{two, "", "test", ""},
		{two, "lint", "lint", ""},
		{none, "", "towpath.yaml has several jobs and none is called test: name one of lint, vet", towpath.CodeUsage},
		{two, "tets", `towpath.yaml has no job "tets": did you mean "test"?`, towpath.CodeNotFound},
		{two, "deploy", `towpath.yaml has no job "deploy": it has lint, test`, towpath.CodeNotFound},
	} {
		j, err := c.file.Job(c.name)
		got := j.Name
		if err != nil {
			got = err.Error()
		}
		if got != c.want || towpath.CodeOf(err) != c.code {
			t.Errorf("job %q: %s (%s), want %s (%s)", c.name, got, towpath.CodeOf(err), c.want, c.code)
		}
	}
}

// Each file of testdata/faults holds pairs of a towpath.yaml and of what is said about it.
func TestFaultsAreNamedWithTheirPlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out := &txtar.Archive{Comment: archive.Comment}
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".says") {
					continue
				}
				_, err := plan.Parse("towpath.yaml", f.Data)
				if err == nil {
					t.Errorf("%s: this must be refused:\n%s", f.Name, f.Data)
					continue
				}
				if code := towpath.CodeOf(err); code != towpath.CodeConfig {
					t.Errorf("%s: code %s", f.Name, code)
				}
				out.Files = append(out.Files, f, txtar.File{Name: f.Name + ".says", Data: []byte(err.Error() + "\n")})
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(out), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(out))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFileThatIsNoTextIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, data, want string }{
		{"UTF-16", "\xff\xfev\x00e\x00", "towpath.yaml:1:1: this is not UTF-8: save the file as UTF-8"},
		{"Latin-1", "version: 1\n# caf\xe9\n", "towpath.yaml:2:6: this is not UTF-8: save the file as UTF-8"},
		{"binary", "version: 1\n\x00", `towpath.yaml:2:1: control character '\x00': remove it, or write it as an escape in double quotes`},
		{"too large", "version: 1\n" + strings.Repeat("#", plan.MaxFileSize), "towpath.yaml is larger than 1024 KiB: list the atoms by a command or a glob"},
		{"empty", "", "towpath.yaml is empty: write one with towpath init"},
		{"comment", "# nothing\n", "towpath.yaml is empty: write one with towpath init"},
		{"brackets", strings.Repeat("[", 100_000), "towpath.yaml:1:101: this nests deeper than 100 levels"},
		{"braces", strings.Repeat("{a: ", 100_000), "towpath.yaml:1:401: this nests deeper than 100 levels"},
		{"dashes", strings.Repeat("- ", 100_000), "towpath.yaml:1:201: this nests deeper than 100 levels"},
		{"keys", strings.Repeat("a:\n ", 100_000), "towpath.yaml:10001:3: this file has more than 10000 keys: split it, or list the atoms by a command"},
		{"questions", strings.Repeat("? ", 100_000), "towpath.yaml:1:201: this nests deeper than 100 levels"},
	} {
		_, err := plan.Parse("towpath.yaml", []byte(c.data))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestMergesOfMergesEnd(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("version: 1\nx-0: &m0 {slots: 1}\n")
	for i := range 40 {
		fmt.Fprintf(&b, "x-%d: &m%d {<<: [*m%d, *m%d]}\n", i+1, i+1, i, i)
	}
	b.WriteString("jobs:\n  t: {<<: *m40}\n")
	_, err := plan.Parse("towpath.yaml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "has more than 200000 keys") {
		t.Errorf("%v", err)
	}
}

func TestLoadSaysWhyAFileCannotBeRead(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"a/towpath.yml":    {Data: []byte("version: 1\n")},
		"dir/towpath.yaml": {Mode: fs.ModeDir | 0o755},
		"pipe":             {Mode: fs.ModeNamedPipe},
		"good":             {Data: []byte(small(""))},
		"large":            {Data: []byte(strings.Repeat("#", plan.MaxFileSize+1))},
	}
	for _, c := range []struct{ name, want string }{
		{"towpath.yaml", "there is no towpath.yaml: write one with towpath init"},
		{"a/towpath.yaml", "there is no a/towpath.yaml, only towpath.yml: rename it"},
		{"dir/towpath.yaml", "dir/towpath.yaml is a directory: it must be a file"},
		{"../towpath.yaml", "../towpath.yaml cannot be read: name a file of this directory or below it"},
		{"pipe", "pipe is not a regular file"},
		{"large", "large is larger than 1024 KiB: list the atoms by a command or a glob"},
	} {
		_, err := plan.Load(fsys, c.name)
		if err == nil || err.Error() != c.want || towpath.CodeOf(err) != towpath.CodeConfig {
			t.Errorf("load %s: %v, want %s", c.name, err, c.want)
		}
		if absent := strings.HasPrefix(c.want, "there is no"); errors.Is(err, fs.ErrNotExist) != absent {
			t.Errorf("load %s: is fs.ErrNotExist: %v, want %v", c.name, !absent, absent)
		}
	}
	if _, err := plan.Load(fsys, "./good"); err != nil {
		t.Error(err)
	}
}

func TestGoPackagesInQuarantineAreFoundByImportPath(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"towpath.yaml": {Data: []byte(small("report: gotest\nquarantine: [./..., './flaky/...', './b::TestX', {pattern: ./b/c, owner: us}, other/*]\n"))},
		"tap.yaml":     {Data: []byte(small("report: tap\nquarantine: ['./flaky/...']\n"))},
		"go.mod":       {Data: []byte("module example.com/root\n")},
		"go.work":      {Data: []byte("go 1.26\nuse (\n\t.\n\t./b\n\t./gone\n)\n")},
		"b/go.mod":     {Data: []byte("module example.com/other\n")},
	}
	f, err := plan.Load(fsys, "towpath.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []towpath.Quarantine{
		{Pattern: "./..."},
		{Pattern: "example.com/root/..."},
		{Pattern: "example.com/other/..."},
		{Pattern: "./flaky/..."},
		{Pattern: "example.com/root/flaky/..."},
		{Pattern: "./b::TestX"},
		{Pattern: "example.com/root/b::TestX"},
		{Pattern: "example.com/other::TestX"},
		{Pattern: "./b/c", Owner: "us"},
		{Pattern: "example.com/root/b/c", Owner: "us"},
		{Pattern: "example.com/other/c", Owner: "us"},
		{Pattern: "other/*"},
	}
	if diff := cmp.Diff(want, f.Jobs["t"].Quarantine); diff != "" {
		t.Error(diff)
	}
	tap, err := plan.Load(fsys, "tap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := tap.Jobs["t"].Quarantine; len(got) != 1 {
		t.Errorf("a job that is not Go's must keep its entries as they are: %v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(small("quarantine: [a, {atom: b}]\nreport: {junit: '**/x.xml'}\n")))
	files, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			f.Add(a.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := plan.Parse("towpath.yaml", data)
		if err != nil {
			if towpath.CodeOf(err) != towpath.CodeConfig {
				t.Fatalf("code %s of %v", towpath.CodeOf(err), err)
			}
			return
		}
		var jobs []towpath.Job
		for _, name := range file.Order {
			jobs = append(jobs, file.Jobs[name])
		}
		if _, err := plan.Marshal(jobs...); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
