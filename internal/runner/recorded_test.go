package runner

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

// These run without any of the tools, on what they once wrote.

func recordedSpec(t *testing.T, kind towpath.ReportKind, run string, names ...string) (Spec, *heard) {
	t.Helper()
	h := &heard{text: map[int]*bytes.Buffer{}, done: map[int]towpath.AtomReport{}, seen: make(chan struct{})}
	return Spec{
		Job:   &towpath.Job{Name: "test", Run: run, Report: towpath.Report{Kind: kind}},
		Units: units(names...), Base: Command{Argv: append([]string{"bash", "-c", run, "towpath"}, names...)},
		Dir: "/w", Reports: t.TempDir(), Scratch: t.TempDir(), Events: h,
	}, h
}

func TestCargoTextOfABinaryThatDies(t *testing.T) {
	t.Parallel()
	s, h := recordedSpec(t, towpath.ReportCargo, cargoRun, "boat")
	_, reading, err := cargo{}.Begin(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	stdout := "\nrunning 3 tests\ntest tests::adds ... ok\ntest tests::odd name ... ignored, in winter\ntest tests::dies ... "
	stderr := "     Running unittests src/main.rs (target/debug/deps/boat-1)\nerror: test failed, to rerun pass `-p boat --lib`\n\nCaused by:\n" +
		"  process didn't exit successfully: `/w/boat-1` (signal: 11, SIGSEGV: invalid memory reference)\n"
	for i := range len(stdout) { // however the pieces fall
		fmt.Fprint(reading.Stdout(), stdout[i:i+1])
	}
	fmt.Fprint(reading.Stderr(), stderr)
	reports, err := reading.Close(t.Context(), Ended{ExitCode: 101, Reason: "exit status 101", Wall: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{reports: reports, heard: h}
	o.check(t, 0, towpath.OutcomeFailed, `SIGSEGV: invalid memory reference): ended in the middle of "tests::dies"; 1 of the 3 tests of src/main.rs`)
	same(t, o.states(0), "passed src/main.rs > tests::adds", "skipped src/main.rs > tests::odd name", "unfinished src/main.rs > tests::dies")
}

func TestTeamCityEscapesAreRead(t *testing.T) {
	t.Parallel()
	got := teamcityAttributes(`name='a |'b|' |[c|]' message='one|ntwo|r || |0x00e9' details=''`)
	want := map[string]string{"name": "a 'b' [c]", "message": "one\ntwo\r | é", "details": ""}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}

func TestEventsOfACommandThatWasKilledKeepWhatWasKnown(t *testing.T) {
	t.Parallel()
	s, h := recordedSpec(t, towpath.ReportJest, jestRun, "a.test.js", "b.test.js", "c.test.js")
	command, reading, err := jest{}.Begin(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var events string
	for _, kv := range command.Env {
		if v, ok := strings.CutPrefix(kv, "TOWPATH_EVENTS="); ok {
			events = v
		}
	}
	written := `{"t":"file","file":"/w/a.test.js"}
{"t":"case","file":"/w/a.test.js","path":["one"],"full":"one","state":"passed","ms":3}
{"t":"end","file":"/w/a.test.js","state":"passed","ms":4}
{"t":"file","file":"/w/b.test.js"}
{"t":"case","file":"/w/b.test.js","path":["two"],"full":"two","state":"failed","ms":3,"message":"sunk"}
{"t":"start","file":"/w/b.test.js","path":["three"],"full":"three"}
{"t":"case","file":"/w/b.te`
	if err := os.WriteFile(events, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(reading.Stdout(), "\x1eas \x1ethey came\x1e")
	reports, err := reading.Close(t.Context(), Ended{ExitCode: -1, Signal: "SIGKILL", Reason: "killed: out of memory", Wall: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{reports: reports, heard: h}
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, `killed: out of memory), in the middle of "three"`)
	same(t, o.states(1), "failed two", "unfinished three")
	if len(o.reports[1].Failed) != 0 {
		t.Errorf("only %q would run again, and the file did not end", o.reports[1].Failed)
	}
	if got := o.text(-1); got != "as they came" {
		t.Errorf("output %q", got)
	}
}

func TestARunThatDropsItsArgumentsIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := recordedSpec(t, towpath.ReportJest, `jest --runTestsByPath "$@" | tee log`, "a.test.js")
	_, _, err := jest{}.Begin(t.Context(), s)
	if towpath.CodeOf(err) != towpath.CodeConfig || !strings.Contains(err.Error(), `does not end with "$@"`) {
		t.Errorf("error %v", err)
	}
}
