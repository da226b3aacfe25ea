package plan_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

// tree makes a project of files; names that end in a slash are empty folders.
func tree(files map[string]string) fstest.MapFS {
	fsys := make(fstest.MapFS, len(files))
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

const pyTest = "def test_it():\n    pass\n"

func TestRecognitionFindsGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		files   map[string]string
		command string
		why     string
	}{
		{"a module", map[string]string{"go.mod": "module m\n"}, "go list -e ./...", "go.mod"},
		{"a workspace", map[string]string{"go.work": "go 1.21\n\nuse (\n\t./gate\n\tpump\n\t../beside\n)\n"}, "go list -e ./gate/... ./pump/... ../beside/...", "go.work with 3 modules"},
		{"a workspace around its root", map[string]string{"go.work": "go 1.21\n\nuse .\n", "go.mod": "module m\n"}, "go list -e ./...", "go.work with 1 module"},
		{"a folder that a shell would take apart", map[string]string{"go.work": "go 1.21\n\nuse \"./it's here\"\n"}, `go list -e './it'\''s here/...'`, "go.work with 1 module"},
		{"modules below the root", map[string]string{"go.mod": "module m\n", "tools/go.mod": "module t\n", "testdata/x/go.mod": "module x\n", "_old/go.mod": "module o\n"}, "go list -e ./...", "go.mod; without 1 module of its own below: tools"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := recognizeOne(t, c.files, "go")
			if got.Job.Atoms.Command != c.command || got.Why != c.why {
				t.Errorf("command %q, why %q", got.Job.Atoms.Command, got.Why)
			}
			if got.Job.Run != `go test -json "$@"` || got.Job.Report.Kind != towpath.ReportGoTest || got.Job.PerAtom {
				t.Errorf("job %+v", got.Job)
			}
		})
	}
}

func TestRecognitionFindsPytest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		globs []string
		why   string
		weak  bool
	}{
		{"pytest.ini", map[string]string{"pytest.ini": "[pytest]\n", "test_a.py": pyTest}, []string{"{test_*,*_test}.py"}, "pytest.ini", false},
		{"an empty pytest.ini and no tests", map[string]string{"pytest.ini": ""}, []string{"**/{test_*,*_test}.py"}, "pytest.ini", false},
		{"pyproject.toml", map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = [\n  \"tests\", # here\n  \"gone\",\n]\n[tool.x]\npython_files = \"no\"\n", "tests/a/test_a.py": pyTest, "test_b.py": pyTest}, []string{"tests/**/{test_*,*_test}.py"}, "pyproject.toml", false},
		{"tox.ini", map[string]string{"tox.ini": "[tox]\nx = 1\n[pytest]\npython_files =\n    check_*.py\n    test_*.py\n", "src/check_a.py": pyTest}, []string{"src/**/{check_*,test_*}.py"}, "tox.ini", false},
		{"setup.cfg", map[string]string{"setup.cfg": "[tool:pytest]\npython_files = check_*.py\n", "check_a.py": pyTest}, []string{"check_*.py"}, "setup.cfg", false},
		{"conftest.py", map[string]string{"conftest.py": "", "a/test_a.py": pyTest, "b/x_test.py": pyTest}, []string{"a/**/{test_*,*_test}.py", "b/**/{test_*,*_test}.py"}, "conftest.py", false},
		{"tests alone", map[string]string{"tests/test_a.py": pyTest}, []string{"tests/**/{test_*,*_test}.py"}, "tests/test_a.py", true},
		{"virtual environments and packages are nobody's tests", map[string]string{
			"pytest.ini": "[pytest]\n", "t/test_a.py": pyTest, ".venv/lib/test_x.py": pyTest, "my/pyvenv.cfg": "", "my/lib/test_x.py": pyTest, "node_modules/g/test_x.py": pyTest,
		}, []string{"t/**/{test_*,*_test}.py"}, "pytest.ini", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := recognizeOne(t, c.files, "pytest")
			if !slices.Equal(got.Job.Atoms.Glob, c.globs) || got.Why != c.why || got.Weak != c.weak {
				t.Errorf("globs %q, why %q, weak %v", got.Job.Atoms.Glob, got.Why, got.Weak)
			}
		})
	}
}

func TestRecognitionIgnoresFilesThatOnlyLookLikeTests(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"a script":              {"test_drive.py": "print(1)\n"},
		"pyproject without it":  {"pyproject.toml": "[tool.black]\n"},
		"nothing":               {},
		"a module further down": {"sub/go.mod": "module m\n"},
	} {
		got, err := plan.Recognize(tree(files))
		if err != nil || len(got) > 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestSureSignsSilenceWeakOnes(t *testing.T) {
	t.Parallel()
	got, err := plan.Recognize(tree(map[string]string{"go.mod": "module m\n", "scripts/test_a.py": pyTest}))
	if err != nil || len(got) != 1 || got[0].Kind != "go" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSeveralFittingKindsAreNamedWithAWayToChoose(t *testing.T) {
	t.Parallel()
	found, err := plan.Recognize(tree(map[string]string{"go.mod": "module m\n", "pytest.ini": "[pytest]\n", "tests/test_a.py": pyTest}))
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	_, err = plan.Choose(found, "")
	if towpath.CodeOf(err) != towpath.CodeConfig || !strings.Contains(err.Error(), "towpath run go or towpath run pytest") {
		t.Errorf("error %v", err)
	}
	j, err := plan.Choose(found, "pytest")
	if err != nil || j.Name != "pytest" || j.Report.Kind != towpath.ReportPytest {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err = plan.Choose(found, "pytst"); towpath.CodeOf(err) != towpath.CodeNotFound || !strings.Contains(err.Error(), `did you mean "pytest"?`) {
		t.Errorf("error %v", err)
	}
	if _, err = plan.Choose(nil, ""); towpath.CodeOf(err) != towpath.CodeConfig || !strings.Contains(err.Error(), "towpath run -- COMMAND") {
		t.Errorf("error %v", err)
	}
	if j, err = plan.Choose(found[:1], ""); err != nil || j.Name != "test" {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestBrokenWorkspaceFileIsAnErrorOfConfiguration(t *testing.T) {
	t.Parallel()
	_, err := plan.Recognize(tree(map[string]string{"go.work": "go 1.21\n\nuse (\n"}))
	if towpath.CodeOf(err) != towpath.CodeConfig || !strings.Contains(err.Error(), "go.work:") {
		t.Errorf("error %v", err)
	}
}

func recognizeOne(t *testing.T, files map[string]string, kind string) plan.Candidate {
	t.Helper()
	got, err := plan.Recognize(tree(files))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Kind != kind {
		t.Fatalf("recognised %+v", got)
	}
	if got[0].Job.Name != "test" || got[0].Job.Timeouts.Build == 0 {
		t.Errorf("the job is not complete: %+v", got[0].Job)
	}
	return got[0]
}

func TestWhatRecognitionFindsIsWhatInitWrites(t *testing.T) {
	t.Parallel()
	found, err := plan.Recognize(tree(map[string]string{"go.mod": "module m\n", "pytest.ini": "[pytest]\n", "tests/test_a.py": pyTest}))
	if err != nil {
		t.Fatal(err)
	}
	jobs := plan.JobsOf(found)
	data, err := plan.Marshal(jobs...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := plan.Parse("towpath.yaml", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	for _, j := range jobs {
		read, err := file.Job(j.Name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(j, read); diff != "" {
			t.Errorf("job %s (-recognised +read):\n%s", j.Name, diff)
		}
	}
}
