package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/towpath/towpath"
)

const pytestRun = `python3 -m pytest "$@"`

// needPytest skips where no Python has pytest.
func needPytest(t *testing.T) {
	t.Helper()
	cmd := exec.Command("sh", "-c", pytestLookup, "towpath", "python3")
	cmd.Dir = t.TempDir()
	need(t, "pytest", "install python3-pytest", cmd.Run() == nil)
}

func pytestRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	needPytest(t)
	if _, ok := files["pytest.ini"]; !ok {
		files["pytest.ini"] = "[pytest]\n"
	}
	return rig{t: t, dir: project(t, files), scratch: t.TempDir()}
}

func (g rig) pytest(list []towpath.OfferedUnit) outcome {
	g.t.Helper()
	return g.run(pytest{}, towpath.ReportPytest, pytestRun, list)
}

func TestPytestFileThatCannotBeImportedFailsAlone(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_boat.py": "def test_floats():\n    pass\n",
		"test_weir.py": "import sluicework\n\ndef test_opens():\n    pass\n",
	})
	o := g.pytest(units("test_boat.py", "test_weir.py"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "No module named 'sluicework'")
	same(t, o.states(0), "passed test_floats")
	same(t, o.states(1))
}

func TestPytestExitZeroInTheMiddleIsAFailure(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_rope.py": "import os\n\ndef test_before():\n    pass\n\ndef test_cut():\n    os._exit(0)\n\ndef test_after():\n    assert False\n",
		"test_aqua.py": "def test_aqua():\n    pass\n",
		"test_quay.py": "def test_quay():\n    pass\n",
	})
	o := g.pytest(units("test_aqua.py", "test_rope.py", "test_quay.py"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "test_cut")
	same(t, o.states(1), "passed test_before", "failed test_cut", "unfinished test_after")
	o.check(t, 2, towpath.OutcomeUnclear, "exit status 0")
	if len(o.reports[1].Failed) > 0 {
		t.Errorf("tests never ran, so the file must run again whole: %q", o.reports[1].Failed)
	}
}

func TestPytestCrashNamesTheSignal(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_crash.py": "import os, signal\n\ndef test_a():\n    os.kill(os.getpid(), signal.SIGSEGV)\n",
	})
	o := g.pytest(units("test_crash.py"))
	o.check(t, 0, towpath.OutcomeFailed, "test_a")
	same(t, o.states(0), "failed test_a")
}

func TestPytestIdsSelectTheirOwnTest(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{"tests/test_name.py": `import pytest

NAMES = [
    "plain", "a b", "a::b", "[id]", "x]y[", "dir/file.py", "dir/file.py::test_name",
    "it's", 'say "lock"', "$(touch pwned)", "-k", "two\nlines", "шлюз", "", "a*?", "twin", "twin",
]


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    assert False


class TestGate:
    def test_name(self):
        assert False
`})
	o := g.pytest(units("tests/test_name.py"))
	o.check(t, 0, towpath.OutcomeFailed, "test_name[plain]")
	if n := o.reports[0].Counts.Failed; n != 18 {
		t.Fatalf("%d failed", n)
	}
	for _, selector := range o.reports[0].Failed {
		list := units("tests/test_name.py")
		list[0].Cases = []string{selector}
		o := g.pytest(list)
		if cases := o.reports[0].Cases; len(cases) != 1 || cases[0].Select != selector || cases[0].State != towpath.CaseFailed {
			t.Errorf("selecting %q ran %+v", selector, cases)
		}
	}
	if _, err := os.Stat(filepath.Join(g.dir, "pwned")); err == nil {
		t.Error("an id was executed")
	}
	list := units("tests/test_name.py")
	list[0].Cases = []string{"tests/test_name.py::test_gone"}
	g.pytest(list).check(t, 0, towpath.OutcomeFailed, "test_gone")
}

func TestPytestOutcomesCountAsInItsOwnReport(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_gate.py": `import pytest


def test_sound():
    pass


@pytest.mark.xfail(reason="known leak")
def test_leak():
    assert False


@pytest.mark.xfail(reason="leaked once")
def test_tight():
    pass


@pytest.mark.xfail(reason="was broken", strict=True)
def test_mended():
    pass


@pytest.mark.skip(reason="winter")
def test_summer():
    assert False


def test_late():
    pytest.skip("closed at night")
`,
		"test_steam.py": "import pytest\n\npytest.importorskip(\"no_such_steam_engine\")\n\n\ndef test_steam():\n    assert False\n",
		"test_lift.py":  "def check_lift():\n    assert False\n",
	})
	o := g.pytest(units("test_gate.py", "test_steam.py", "test_lift.py"))
	o.check(t, 0, towpath.OutcomeFailed, "XPASS(strict)")
	same(t, o.states(0), "passed test_sound", "skipped test_leak", "passed test_tight", "failed test_mended", "skipped test_summer", "skipped test_late")
	for _, c := range o.reports[0].Cases {
		if c.Name == "test_late" && c.Message != "closed at night" {
			t.Errorf("skip reason %q", c.Message)
		}
	}
	o.check(t, 1, towpath.OutcomeSkipped, "")
	same(t, o.states(1), "skipped test_steam.py")
	o.check(t, 2, towpath.OutcomeSkipped, "no tests")
	alone := g.pytest(units("test_steam.py"))
	alone.check(t, 0, towpath.OutcomeSkipped, "")
	g.pytest(units("test_lift.py")).check(t, 0, towpath.OutcomeSkipped, "no tests")
	g.pytest(units("test_none.py")).check(t, 0, towpath.OutcomeFailed, "test_none.py")
}

func TestPytestErrorsInFixturesAreOneFailureATest(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{"test_gate.py": `import pytest


@pytest.fixture
def gate():
    yield "gate"
    raise RuntimeError("gate left open")


@pytest.fixture
def crane():
    raise RuntimeError("no crane")


def test_sound():
    pass


def test_left_open(gate):
    pass


def test_sunk(gate):
    assert gate == "boat"


def test_never_began(crane):
    pass
`})
	o := g.pytest(units("test_gate.py"))
	o.check(t, 0, towpath.OutcomeFailed, "gate left open")
	same(t, o.states(0), "passed test_sound", "failed test_left_open", "failed test_sunk", "failed test_never_began")
	if n := len(o.reports[0].Failed); n != 3 {
		t.Errorf("selectors: %q", o.reports[0].Failed)
	}
}

func TestPytestCommandThatFailsBesideItsTestsFails(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_a.py":   "def test_a():\n    pass\n",
		"test_b.py":   "def test_b():\n    pass\n",
		"conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 9\n",
	})
	g.pytest(units("test_a.py")).check(t, 0, towpath.OutcomeFailed, "exit status 9")
	o := g.pytest(units("test_a.py", "test_b.py"))
	o.check(t, 0, towpath.OutcomeUnclear, "exit status 9")
	o.check(t, 1, towpath.OutcomeUnclear, "exit status 9")
}

func TestPytestPluginLeavesTheEnvironmentAsItFoundIt(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"lib/helper_plugin.py": "import pytest\n\n@pytest.fixture\ndef gate():\n    return 1\n",
		"test_env.py": "import os\n\ndef test_env(gate):\n    assert os.environ.get('PYTEST_PLUGINS') == 'helper_plugin'\n" +
			"    assert os.environ['PYTHONPATH'] == 'lib'\n    assert 'TOWPATH_PYTEST_EVENTS' not in os.environ\n",
	})
	g.env = []string{"PYTHONPATH=lib", "PYTEST_PLUGINS=helper_plugin", "PYTEST_ADDOPTS=-p no:cacheprovider -q"}
	g.pytest(units("test_env.py")).check(t, 0, towpath.OutcomePassed, "")
}

func TestPytestTimeoutNamesTheTest(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_a.py": "def test_a():\n    pass\n",
		"test_b.py": "import sys, time\n\ndef test_stuck(capfd):\n    with capfd.disabled():\n        print('waiting for a boat', flush=True)\n    time.sleep(600)\n",
		"test_c.py": "def test_c():\n    pass\n",
	})
	g.until = "waiting for a boat"
	o := g.pytest(units("test_a.py", "test_b.py", "test_c.py"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeTimedOut, `in the middle of "test_stuck"`)
	o.check(t, 2, towpath.OutcomeUnclear, "")
}

func TestPytestTellsOfFailedFilesAndOfBeginningsAtOnce(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_a.py":      "def test_a():\n    assert 1 == 2\n",
		"sub/test_b.py":  "def test_b():\n    pass\n",
		"sub2/test_c.py": "class TestC:\n    def test_c(self):\n        pass\n\n    def test_d(self):\n        pass\n",
	})
	o := g.pytest(units("test_a.py", "sub", "sub2/test_c.py::TestC::test_c"))
	if !slices.Equal(o.heard.began, []int{0, 1, 2}) {
		t.Errorf("began: %v", o.heard.began)
	}
	if _, told := o.heard.done[0]; !told {
		t.Error("a failed file is reported while the rest runs")
	}
	o.check(t, 0, towpath.OutcomeFailed, "assert 1 == 2")
	same(t, o.states(1), "passed sub/test_b.py::test_b")
	same(t, o.states(2), "passed TestC::test_c")
}

func TestPytestWithXdistIsReadFromItsController(t *testing.T) {
	t.Parallel()
	g := pytestRig(t, map[string]string{
		"test_a.py": "import os\n\ndef test_a():\n    assert 1 == 2\n\ndef test_b():\n    pass\n\ndef test_c():\n    pass\n\ndef test_d():\n    os._exit(0)\n",
		"test_b.py": "def test_a():\n    pass\n",
		"test_c.py": "import nothing_of_the_kind\n",
	})
	python, err := exec.Command("sh", "-c", pytestLookup, "towpath", "python3").Output()
	if err != nil {
		t.Fatal(err)
	}
	need(t, "pytest-xdist", "install python3-pytest-xdist", exec.Command(strings.TrimSpace(string(python)), "-c", "import xdist").Run() == nil)
	g.env = []string{"PYTEST_ADDOPTS=-n 2"}
	o := g.pytest(units("test_a.py", "test_b.py"))
	o.check(t, 0, towpath.OutcomeFailed, "")
	same(t, o.states(0), "failed test_a", "passed test_b", "passed test_c", "failed test_d")
	o.check(t, 1, towpath.OutcomePassed, "")
	o = g.pytest(units("test_b.py", "test_c.py"))
	o.check(t, 1, towpath.OutcomeFailed, "nothing_of_the_kind")
}
