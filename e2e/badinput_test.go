package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadInputGetsOneClearLine gives towpath what people get wrong. Each answer is an exit code and a first line that
// names the place and the remedy, and nothing is damaged.
func TestBadInputGetsOneClearLine(t *testing.T) {
	t.Parallel()
	const sound = "version: 1\njobs:\n  test:\n    atoms: {list: [a]}\n    run: \"true\"\n    report: none\n"
	job := func(body string) map[string]string {
		return map[string]string{"towpath.yaml": "version: 1\njobs:\n  test:\n" + body}
	}
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		code  int
		want  []string
	}{
		"an unknown key":           {job("    atoms: {list: [a]}\n    runn: x\n"), []string{"run"}, 2, []string{"towpath.yaml:5:5", "runn", "run"}},
		"broken YAML":              {map[string]string{"towpath.yaml": "version: 1\njobs: [\n"}, []string{"run"}, 2, []string{"towpath.yaml:"}},
		"a job that is not there":  {map[string]string{"towpath.yaml": sound}, []string{"run", "tset"}, 2, []string{"tset", "test"}},
		"a glob without matches":   {job("    atoms: {glob: \"nothing/**/*.sh\"}\n    run: \"true\"\n    report: none\n"), []string{"run"}, 2, []string{"no atoms", "nothing/**/*.sh"}},
		"a listing that fails":     {job("    atoms: {command: \"echo half; echo broken pump >&2; exit 9\"}\n    run: \"true\"\n    report: none\n"), []string{"run"}, 2, []string{"exit status 9", "broken pump"}},
		"a listing without lines":  {job("    atoms: {command: \"true\"}\n    run: \"true\"\n    report: none\n"), []string{"run"}, 2, []string{"no atoms"}},
		"the same atom twice":      {job("    atoms: {list: [a, b, a]}\n    run: \"true\"\n    report: none\n"), []string{"run"}, 2, []string{"a"}},
		"a command that is absent": {nil, []string{"run", "--", "no-such-program-here"}, 2, []string{"no-such-program-here"}},
		"nothing to recognise":     {nil, []string{"run"}, 2, []string{"towpath.yaml", "towpath run --"}},
		"a build that is absent":   {nil, []string{"show", "99"}, 2, []string{"99", "towpath ps"}},
		"a build that is a word":   {nil, []string{"show", "last"}, 2, []string{"last", "number"}},
		"an unknown command":       {nil, []string{"rnu"}, 2, []string{"rnu", "run"}},
		"an unknown flag":          {nil, []string{"run", "--slot", "3"}, 2, []string{"--slot"}},
		"a setting out of range":   {nil, []string{"run", "--slots", "0"}, 2, []string{"slots", "at least 1"}},
		"a retry of nothing":       {nil, []string{"retry", "--failed"}, 2, []string{"no build", "towpath run"}},
		"a cancel without number":  {nil, []string{"cancel"}, 2, []string{"towpath ps"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, c.files)
			r := p.towpath(c.args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(r.stderr+r.stdout, want) {
					t.Errorf("%q is nowhere in what it printed", want)
				}
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
			}
		})
	}
}

func TestAStateDirectoryThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "TOWPATH_STATE_DIR="+file)
	r := p.towpath("run", "--", "true")
	if r.code != 3 || !strings.Contains(r.stderr, file) || !strings.Contains(r.stderr, "--state-dir") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

func TestADatabaseThatIsNoneIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	db := filepath.Join(p.state, "towpath.db")
	garbage := strings.Repeat("this is no database\n", 500)
	if err := os.WriteFile(db, []byte(garbage), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.towpath("run", "--", "true")
	if r.code != 3 && r.code != 2 || !strings.Contains(r.stderr, db) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if now, err := os.ReadFile(db); err != nil || string(now) != garbage {
		t.Errorf("the file was changed (%v)", err)
	}
}
