package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

const goRun = `go test -json "$@"`

func goProject(t *testing.T, module string, files map[string]string) string {
	t.Helper()
	files["go.mod"] = "module " + module + "\n\ngo 1.21\n"
	return project(t, files)
}

func TestGoBuildFailureFailsItsPackageAlone(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/yard", map[string]string{
		"crane/crane.go":      "package crane\n\nfunc Hoist() int { return 1 }\n",
		"crane/crane_test.go": "package crane_test\n\nimport \"testing\"\n\nfunc TestHoist(t *testing.T) {\n\tif lift() != 1 {\n\t\tt.Error()\n\t}\n}\n",
		"rope/rope_test.go":   "package rope\n\nimport \"testing\"\n\nfunc TestSplice(t *testing.T) {}\n",
		"plan/plan.go":        "package plan\n",
	})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, goRun,
		units("example.com/yard/crane", "example.com/yard/rope", "example.com/yard/plan", "example.com/yard/none"))
	o.check(t, 0, towpath.OutcomeFailed, "undefined: lift")
	o.check(t, 1, towpath.OutcomePassed, "")
	o.check(t, 2, towpath.OutcomeSkipped, "no test files")
	o.check(t, 3, towpath.OutcomeFailed, "no required module provides package")
	same(t, o.states(0))
	same(t, o.states(1), "passed TestSplice")
}

func TestGoExitZeroNamesTheTestsThatNeverRan(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/quay", map[string]string{
		"berth/berth_test.go": "package berth\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMoor(t *testing.T) {}\n\n" +
			"func TestCastOff(t *testing.T) { os.Exit(0) }\n\nfunc TestReach(t *testing.T) {}\n\nfunc BenchmarkNothing(b *testing.B) {}\n",
		"dock/dock_test.go": "package dock\n\nimport \"testing\"\n\nfunc TestDock(t *testing.T) {}\n",
	})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, goRun, units("example.com/quay/berth", "example.com/quay/dock"))
	o.check(t, 0, towpath.OutcomeFailed, "os.Exit(0)")
	same(t, o.states(0), "passed TestMoor", "failed TestCastOff", "unfinished TestReach")
	o.check(t, 1, towpath.OutcomePassed, "")
	if f := o.reports[0].Failed; len(f) != 0 {
		t.Errorf("a package of which tests never ran must run again whole, not %q", f)
	}
}

func TestGoSignalFailsTheRunningTestAndNamesTheRest(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/crash", map[string]string{
		"k_test.go": "package crash\n\nimport (\n\t\"os\"\n\t\"syscall\"\n\t\"testing\"\n)\n\n" +
			"func TestA(t *testing.T) { t.Parallel() }\n\n" +
			"func TestB(t *testing.T) {\n\tt.Run(\"x\", func(t *testing.T) {\n\t\tsyscall.Kill(os.Getpid(), syscall.SIGKILL)\n\t\tselect {}\n\t})\n}\n\n" +
			"func TestC(t *testing.T) {}\n",
	})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, goRun, units("example.com/crash"))
	o.check(t, 0, towpath.OutcomeFailed, "signal: killed")
	same(t, o.states(0), "unfinished TestA", "failed TestB", "failed TestB/x", "unfinished TestC")
}

func TestGoTestMainCannotHideAFailure(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/lock", map[string]string{
		"swallow/lock_test.go": "package lock\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n\n" +
			"func TestFill(t *testing.T) {}\n\nfunc TestLeak(t *testing.T) { t.Error(\"the upper gate leaks\") }\n",
		"quiet/lock_test.go": "package lock\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n\nfunc TestFill(t *testing.T) {}\n",
		"late/lock_test.go":  "package lock\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(3)\n}\n\nfunc TestFill(t *testing.T) {}\n",
	})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, goRun,
		units("example.com/lock/swallow", "example.com/lock/quiet", "example.com/lock/late"))
	o.check(t, 0, towpath.OutcomeFailed, "the upper gate leaks")
	same(t, o.states(0), "passed TestFill", "failed TestLeak")
	o.check(t, 1, towpath.OutcomeFailed, "without running a test")
	o.check(t, 2, towpath.OutcomeFailed, "")
	same(t, o.states(2), "passed TestFill")
}

func TestGoUnitsMayBeFoldersAndPatterns(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/m", map[string]string{
		"a/a_test.go":   "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
		"a/b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Fatal(\"no\") }\n",
		"c/c_test.go":   "package c\n\nimport \"testing\"\n\nfunc TestC(t *testing.T) {}\n",
	})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, goRun, units("./a/...", "./c", "./nope"))
	o.check(t, 0, towpath.OutcomeFailed, "TestB")
	same(t, o.states(0), "passed example.com/m/a.TestA", "failed example.com/m/a/b.TestB")
	o.check(t, 1, towpath.OutcomePassed, "")
	o.check(t, 2, towpath.OutcomeFailed, "directory not found")
}

func TestGoVerboseFlagLosesNoEvents(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/gauge", map[string]string{
		"g_test.go": "package gauge\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestBare(t *testing.T) { fmt.Print(\"level ok\") }\n\nfunc TestLow(t *testing.T) {\n\tfmt.Print(\"low\")\n\tt.Fail()\n}\n",
	})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, `CGO_ENABLED=0 go test -v "$@" -short`, units("example.com/gauge"))
	o.check(t, 0, towpath.OutcomeFailed, "TestLow")
	same(t, o.states(0), "passed TestBare", "failed TestLow")
}

func TestGoCommandThatFailsBesideItsTestsFails(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
		"b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) {}\n",
	}
	dir := goProject(t, "example.com/m", files)
	text := `go test -json "$@"; echo "no licence" >&2; exit 9`
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, text, units("example.com/m/a"))
	o.check(t, 0, towpath.OutcomeFailed, "exit status 9: no licence")
	o = rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, text, units("example.com/m/a", "example.com/m/b"))
	o.check(t, 0, towpath.OutcomeUnclear, "exit status 9")
	o.check(t, 1, towpath.OutcomeUnclear, "exit status 9")
	o = rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, `echo fine`, units("example.com/m/a", "example.com/m/b"))
	o.check(t, 0, towpath.OutcomeFailed, "no result")
	o.check(t, 1, towpath.OutcomeFailed, "no result")
}

const routes = `package route

import "testing"

func TestRoute(t *testing.T) {
	names := []string{
		"", "a b", "a/b", "a//b/", "(up)", "[id]", "x|y", "^top$", "50%", "a",
		"шлюз", "dup", "dup", ` + "`back\\slash`" + `, "tab\there", "nul\x00", "two\nlines",
	}
	for _, n := range names {
		t.Run(n, func(t *testing.T) { t.Error("no way through") })
	}
}

// TestRout is a prefix of TestRoute.
func TestRout(t *testing.T) {}

func FuzzDepth(f *testing.F) {
	f.Add(3)
	f.Add(7)
	f.Fuzz(func(t *testing.T, d int) {})
}
`

func TestGoSelectsEachCaseByItselfWhateverItsName(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/route", map[string]string{"route_test.go": routes})
	g := rig{t: t, dir: dir, scratch: t.TempDir()}
	o := g.run(goTest{}, towpath.ReportGoTest, goRun, units("example.com/route"))
	all := o.reports[0]
	if len(all.Failed) != 17 {
		t.Fatalf("failed selectors: %q", all.Failed)
	}
	if all.Counts.Total != 22 {
		t.Errorf("counts %+v", all.Counts)
	}
	for _, c := range all.Cases {
		one := units("example.com/route")
		one[0].Cases = []string{c.Select}
		o := g.run(goTest{}, towpath.ReportGoTest, goRun, one)
		found := 0
		for _, k := range o.reports[0].Cases {
			if k.Select == c.Select {
				found++
			}
			if k.State == towpath.CaseFailed && !within(k.Select, c.Select) && !within(c.Select, k.Select) {
				t.Errorf("selecting %q also ran %q", c.Select, k.Select)
			}
		}
		if found != 1 {
			t.Errorf("selecting %q ran it %d times: %+v", c.Select, found, o.reports[0].Cases)
		}
	}
}

// within says whether test a is b or lies below it.
func within(a, b string) bool {
	return a == b || len(a) > len(b) && a[:len(b)] == b && a[len(b)] == '/'
}

func TestGoRerunThatMatchesNothingNeverPasses(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/route", map[string]string{"r_test.go": "package route\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Run(\"x\", func(*testing.T) {}) }\n"})
	for _, gone := range []string{"TestB", "TestA/y"} {
		list := units("example.com/route")
		list[0].Cases = []string{gone}
		o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, goRun, list)
		o.check(t, 0, towpath.OutcomeFailed, gone)
	}
}

func TestGoTimeoutNamesTheTestAndClearsWhatHadEnded(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/hang", map[string]string{
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
		"b/b_test.go": "package b\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestQuick(t *testing.T) {}\n\nfunc TestStuck(t *testing.T) {\n\tfmt.Println(\"waiting for a boat\")\n\tselect {}\n}\n",
	})
	list := units("example.com/hang/a", "example.com/hang/b")
	g := rig{t: t, dir: dir, until: "waiting for a boat"}
	o := g.run(goTest{}, towpath.ReportGoTest, `go test -json -p 1 "$@"`, list)
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeTimedOut, `no output for 8s, in the middle of "TestStuck"`)
	same(t, o.states(1), "passed TestQuick", "failed TestStuck")
}

func TestGoCachedResultIsKnownAsSuch(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/calm", map[string]string{"c_test.go": "package calm\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"})
	g := rig{t: t, dir: dir, env: []string{"GOFLAGS=-count=1"}}
	if o := g.run(goTest{}, towpath.ReportGoTest, goRun, units("example.com/calm")); o.reports[0].Cached {
		t.Error("the first run is not cached")
	}
	g.env = nil
	g.run(goTest{}, towpath.ReportGoTest, goRun, units("example.com/calm"))
	if o := g.run(goTest{}, towpath.ReportGoTest, goRun, units("example.com/calm")); !o.reports[0].Cached || o.reports[0].Counts.Passed != 1 {
		t.Errorf("the second run is cached: %+v", o.reports[0])
	}
}

func TestGoBuildFailureOfAnOlderGoIsExplainedFromItsLog(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/yard", map[string]string{"x.sh": `printf '# example.com/yard/crane_test [example.com/yard/crane.test]\ncrane/crane_test.go:7:6: undefined: lift\n' >&2
printf '%s\n' '{"Action":"start","Package":"example.com/yard/crane"}' '{"Action":"output","Package":"example.com/yard/crane","Output":"FAIL\texample.com/yard/crane [build failed]\n"}' '{"Action":"fail","Package":"example.com/yard/crane","Elapsed":0}'
exit 1
`})
	o := rig{t: t, dir: dir}.run(goTest{}, towpath.ReportGoTest, `sh x.sh "$@"`, units("example.com/yard/crane"))
	o.check(t, 0, towpath.OutcomeFailed, "undefined: lift")
}
