package runner

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

func TestPlainCommandIsJudgedByItsStatusAlone(t *testing.T) {
	t.Parallel()
	g := rig{t: t, dir: t.TempDir()}
	plain := func(text string, names ...string) outcome {
		return g.run(none{}, towpath.ReportNone, text, units(names...))
	}
	plain(`true`, "a").check(t, 0, towpath.OutcomePassed, "")
	o := plain(`echo "lock is shut" >&2; exit 7`, "a")
	o.check(t, 0, towpath.OutcomeFailed, "exit status 7: lock is shut")
	if o.reports[0].ExitCode != 7 {
		t.Errorf("exit code %d", o.reports[0].ExitCode)
	}
	both := plain(`exit 1`, "a", "b")
	both.check(t, 0, towpath.OutcomeUnclear, "exit status 1")
	both.check(t, 1, towpath.OutcomeUnclear, "exit status 1")
	both = plain(`true`, "a", "b")
	both.check(t, 0, towpath.OutcomePassed, "")
	both.check(t, 1, towpath.OutcomePassed, "")
}

func TestABatchThatPassedSharesItsTimeAmongItsAtoms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  Ended
		want time.Duration
	}{
		"passed": {Ended{Wall: 9 * time.Second}, 3 * time.Second},
		"failed": {Ended{Wall: 9 * time.Second, ExitCode: 1}, 0},
		"killed": {Ended{Wall: 9 * time.Second, ExitCode: -1, Signal: "SIGSEGV"}, 0},
	} {
		_, reading, err := none{}.Begin(t.Context(), Spec{Job: &towpath.Job{}, Units: units("a", "b", "c"), Events: &heard{}})
		if err != nil {
			t.Fatal(err)
		}
		reports, err := reading.Close(t.Context(), c.end)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if got := reports[i].Duration; got != c.want {
				t.Errorf("%s: atom %d took %v, want %v", name, i, got, c.want)
			}
		}
	}
}

// Two pipes are read by two goroutines: what comes through them has no order.
func TestWhatAPlainCommandSaysKeepsItsOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range []towpath.ReportKind{towpath.ReportNone, towpath.ReportJUnit} {
		r, err := For(kind)
		if err != nil {
			t.Fatal(err)
		}
		h := &heard{text: map[int]*bytes.Buffer{}}
		_, reading, err := r.Begin(t.Context(), Spec{Job: &towpath.Job{}, Units: units("a"), Dir: t.TempDir(), Reports: t.TempDir(), Events: h})
		if err != nil {
			t.Fatal(err)
		}
		if reading.Stdout() != reading.Stderr() {
			t.Errorf("%s: standard output and standard error are told apart", kind)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done; exit 1`)
		cmd.Stdout, cmd.Stderr = reading.Stdout(), reading.Stderr()
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		reports, err := reading.Close(t.Context(), Ended{ExitCode: 1, Reason: "exit status 1"})
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for i := 1; i <= 9; i++ {
			want += fmt.Sprintf("out %d\nerr %d\n", i, i)
		}
		if got := h.text[0].String(); got != want {
			t.Errorf("%s: the log is %q, want %q", kind, got, want)
		}
		if got := reports[0].Reason; got != "exit status 1: err 9" {
			t.Errorf("%s: reason %q", kind, got)
		}
	}
}

func TestStoppedCommandKeepsItsReason(t *testing.T) {
	t.Parallel()
	for _, stopped := range []towpath.Outcome{towpath.OutcomeTimedOut, towpath.OutcomeCanceled} {
		for _, kind := range []towpath.ReportKind{towpath.ReportNone, towpath.ReportTAP, towpath.ReportJUnit, towpath.ReportGoTest, towpath.ReportPytest} {
			r, err := For(kind)
			if err != nil {
				t.Fatal(err)
			}
			h := &heard{}
			_, reading, err := r.Begin(t.Context(), Spec{
				Job: &towpath.Job{Run: `run "$@"`}, Units: units("a"), Base: Command{Argv: []string{"sh", "-c", `run "$@"`, "towpath", "a"}},
				Dir: t.TempDir(), Reports: t.TempDir(), Scratch: t.TempDir(), Events: h,
			})
			if err != nil {
				t.Fatal(err)
			}
			reports, err := reading.Close(t.Context(), Ended{ExitCode: -1, Signal: "SIGKILL", Stopped: stopped, Reason: "longer than 5s", Wall: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r := reports[0]; r.Outcome != stopped || r.Reason != "longer than 5s" {
				t.Errorf("%s: %s %q", kind, r.Outcome, r.Reason)
			}
		}
	}
}

func TestTAPPlanIsHeldAgainstItsResults(t *testing.T) {
	t.Parallel()
	g := rig{t: t, dir: t.TempDir()}
	tapOf := func(text string, names ...string) outcome {
		return g.run(tap{}, towpath.ReportTAP, text, units(names...))
	}
	o := tapOf(`printf 'TAP version 13\n1..5\nok 1 - fills\nok 2 - opens\nok 3 - boat enters\n'`, "all")
	o.check(t, 0, towpath.OutcomeFailed, "5")
	if n := o.reports[0].Counts; n.Passed != 3 || n.Unfinished != 2 {
		t.Errorf("counts %+v", n)
	}
	tapOf(`printf '1..1\nok 1 - fills\n'`, "all").check(t, 0, towpath.OutcomePassed, "")
	tapOf(`printf '1..1\nok 1 - fills\n'; exit 3`, "all").check(t, 0, towpath.OutcomeFailed, "exit status 3")
	tapOf(`printf '1..1\nnot ok 1 - fills\n'`, "all").check(t, 0, towpath.OutcomeFailed, "fills")
	tapOf(`echo hello`, "all").check(t, 0, towpath.OutcomeFailed, "no TAP")
	tapOf(`echo 1..0`, "all").check(t, 0, towpath.OutcomeSkipped, "")
	tapOf(`printf '1..1\nok 1 - fills\n'`, "a", "b").check(t, 1, towpath.OutcomeUnclear, "batch: 1")
}

const oneCase = `<testsuite name="s"><testcase classname="c" name="n"/></testsuite>`

func junitRig(t *testing.T, glob string) func(text string, names ...string) outcome {
	t.Helper()
	g := rig{t: t, dir: t.TempDir(), glob: glob}
	return func(text string, names ...string) outcome {
		t.Helper()
		return g.run(junit{}, towpath.ReportJUnit, text, units(names...))
	}
}

func TestJUnitFilesCountOnlyIfThisAttemptWroteThem(t *testing.T) {
	t.Parallel()
	run := junitRig(t, "out/*.xml")
	write := `mkdir -p out; printf '%s' '` + oneCase + `' > out/r.xml`
	run(write, "all").check(t, 0, towpath.OutcomePassed, "")
	run(`true`, "all").check(t, 0, towpath.OutcomeFailed, "no JUnit file that matches out/*.xml")
	o := run(write, "all")
	o.check(t, 0, towpath.OutcomePassed, "")
	if o.reports[0].Counts.Passed != 1 {
		t.Errorf("counts %+v", o.reports[0].Counts)
	}
	run(write+`; exit 4`, "all").check(t, 0, towpath.OutcomeFailed, "exit status 4")
	run(`printf '<testsuite><testcase name="a"/>' > out/torn.xml`, "all").check(t, 0, towpath.OutcomeFailed, "out/torn.xml")
	run(`printf '<testsuite><testcase name="a"><failure message="leaks"/></testcase></testsuite>' > out/r.xml`, "all").
		check(t, 0, towpath.OutcomeFailed, "a: leaks")
	run(`printf '<testsuite/>' > out/r.xml`, "all").check(t, 0, towpath.OutcomeSkipped, "no test")
}

func TestJUnitCasesAreGivenToTheAtomsThatTheyName(t *testing.T) {
	t.Parallel()
	run := junitRig(t, "r.xml")
	emit := func(cases string) string { return `printf '%s' '<testsuite>` + cases + `</testsuite>' > r.xml` }
	o := run(emit(`<testcase classname="t.test_a.TestX" name="n"/><testcase file="t/test_b.py" name="m"><failure message="no"/></testcase>`)+`; exit 1`,
		"t/test_a.py", "t/test_b.py", "t/test_c.py")
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "m: no")
	o.check(t, 2, towpath.OutcomeUnclear, "no case of this atom")
	o = run(emit(`<testcase classname="t.test_a" name="n"/><testcase classname="t.test_b" name="m"/><testcase name="stray"><failure/></testcase>`), "t/test_a.py", "t/test_b.py")
	o.check(t, 0, towpath.OutcomeUnclear, "stray")
	o.check(t, 1, towpath.OutcomeUnclear, "stray")
	o = run(emit(`<testcase classname="t.test_a" name="n"/><testcase classname="t.test_b" name="m"/>`)+`; exit 3`, "t/test_a.py", "t/test_b.py")
	o.check(t, 0, towpath.OutcomeUnclear, "exit status 3")
}

func TestJUnitFilesInTheAttemptsOwnFolderCount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := &junitReading{outputReading: newOutputReading(Spec{Job: &towpath.Job{}, Units: units("all"), Dir: t.TempDir(), Reports: dir, Events: &heard{}})}
	if err := os.WriteFile(filepath.Join(dir, "x.xml"), []byte(oneCase), 0o644); err != nil {
		t.Fatal(err)
	}
	reports, err := r.Close(t.Context(), Ended{})
	if err != nil || reports[0].Counts.Passed != 1 {
		t.Errorf("%+v, %v", reports, err)
	}
}
