package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/towpath/towpath"
)

// call runs a command line that ends before it starts anything.
func call(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := &command{out: &stdout, err: &stderr, in: strings.NewReader(""), getenv: env(map[string]string{"HOME": t.TempDir()})}
	root := newRoot(c)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		c.printError(err)
	}
	return exitCode(err), stdout.String() + stderr.String()
}

func TestACommandLineThatIsWrongExitsWithTwo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"show", "1", "2"},
		{"logs", "1", "a", "b"},
		{"retry", "1", "2"},
		{"init", "go", "jest"},
		{"ps", "x"},
		{"config", "x"},
		{"cancel"},
		{"sail"},
		{"run", "--sail"},
		{"run", "a", "b"},
		{"run", "--slots", "0"},
		{"run", "--batch=-1", "--", "true"},
		{"run", "--retries=-1", "--", "true"},
	} {
		if code, out := call(t, args...); code != exitUsage || !strings.HasPrefix(out, "towpath: ") {
			t.Errorf("towpath %s: exit %d, %s", strings.Join(args, " "), code, out)
		}
	}
}

func TestAJobThatNoSlotHereCouldTakeIsRefused(t *testing.T) {
	t.Parallel()
	labels := localLabels("quay")
	for _, c := range []struct {
		job  towpath.Job
		want string // in the refusal
	}{
		{towpath.Job{Slots: 2, Labels: labels}, ""},
		{towpath.Job{Slots: 3}, "3 slots"},
		{towpath.Job{Slots: 1, Labels: []string{"quay", "gpu"}}, "labelled gpu and"},
	} {
		switch err := fits(c.job, 2, labels); {
		case c.want == "" && err != nil:
			t.Errorf("%v was refused: %v", c.job, err)
		case c.want != "" && (towpath.CodeOf(err) != towpath.CodeConfig || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want a refusal with %q", c.job, err, c.want)
		}
	}
}

func TestTheFileOfJobsMayStandOutsideOfTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(file, []byte("version: 1\njobs:\n  tow:\n    atoms: {list: [a]}\n    run: \"true\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, file)
	if err != nil {
		t.Fatal(err)
	}
	c := &command{}
	for _, name := range []string{file, relative} {
		job, err := c.job("", nil, false, runOptions{file: name})
		if err != nil || job.Name != "tow" {
			t.Errorf("%s: job %q, %v", name, job.Name, err)
		}
	}
	missing := filepath.Join(dir, "none.yaml")
	if _, err := c.job("", nil, false, runOptions{file: missing}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAReportReplacesAFileButNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	file, link := filepath.Join(dir, "report.xml"), filepath.Join(dir, "link.xml")
	if err := os.Symlink("report.xml", link); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ path, text string }{{file, "first, long"}, {file, "second"}, {link, "3rd"}} {
		if err := writeFile(step.path, write(step.text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != step.text {
			t.Errorf("after %s to %s the report is %q, %v", step.text, step.path, got, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", info, err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if err := checkReports(runOptions{junit: filepath.Join(dir, "none", "report.xml")}); towpath.CodeOf(err) != towpath.CodeUsage {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestALogPrintedAsJSONSplitsNoCharacter(t *testing.T) {
	t.Parallel()
	text := "a§€😀z\xff"
	for size := 1; size < len(text); size++ {
		w := wholeRunes{}
		var got []towpath.LogPiece
		for at := 0; at < len(text); at += size {
			got = append(got, w.join(towpath.LogPiece{Attempt: 1, Offset: int64(at), Data: []byte(text[at:min(at+size, len(text))])})...)
		}
		got = append(got, w.rest()...)
		var all strings.Builder
		for _, p := range got {
			if int(p.Offset) != all.Len() {
				t.Errorf("pieces of %d bytes: one is at %d, after %d", size, p.Offset, all.Len())
			}
			all.WriteString(strings.ToValidUTF8(string(p.Data), "?"))
		}
		if d := cmp.Diff("a§€😀z?", all.String()); d != "" {
			t.Errorf("pieces of %d bytes (-want +got):\n%s", size, d)
		}
	}
	w := wholeRunes{}
	w.join(towpath.LogPiece{Attempt: 1, Data: []byte("a\xe2\x82")})
	got := w.join(towpath.LogPiece{Attempt: 1, Offset: 10, Gap: 7, Data: []byte("b")})
	if len(got) != 2 || string(got[0].Data) != "\xe2\x82" || got[0].Offset != 1 {
		t.Errorf("before a gap: %v, want what was held back", got)
	}
}

func TestEveryFlagIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&command{getenv: env(nil)})
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Name() == "help" || cmd.Name() == "completion" { // cobra's own
			continue
		}
		if cmd != root && !strings.Contains(string(doc), "`towpath "+cmd.Name()) {
			t.Errorf("docs/cli.md does not name towpath %s", cmd.Name())
		}
		check := func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(string(doc), "--"+f.Name) && !strings.Contains(string(doc), "`-"+f.Shorthand+" ") {
				t.Errorf("docs/cli.md does not name --%s of %s", f.Name, cmd.CommandPath())
			}
		}
		cmd.Flags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
	}
}
