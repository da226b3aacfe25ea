package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, d)
	}
}

// story is a build of four atoms: one fails, one is flaky, one is skipped.
func story() (events []towpath.NumberedEvent, build towpath.BuildInfo, troubles map[int]trouble) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	add := func(ms int, body towpath.Body) {
		events = append(events, towpath.NumberedEvent{Seq: int64(len(events) + 1), Event: towpath.Event{Build: 7, At: at(ms), Body: body}})
	}
	unit := func(i int) towpath.Unit { return towpath.Unit{Atom: i} }
	offered := func(i int, name string) towpath.OfferedUnit { return towpath.OfferedUnit{Unit: unit(i), Name: name} }
	add(0, towpath.BuildSubmitted{Job: towpath.Job{Name: "test"}})
	add(10, towpath.AtomsListed{Atoms: []towpath.ListedAtom{
		{Name: "gate", Estimate: towpath.Estimate{Mean: 2 * time.Second}},
		{Name: "pump", Estimate: towpath.Estimate{Mean: time.Second}},
		{Name: "rope", Estimate: towpath.Estimate{Mean: time.Second}},
		{Name: "quay"},
	}})
	add(20, towpath.AttemptOffered{Attempt: "a1", Number: 1, Kind: towpath.AttemptRun, Session: "s", Agent: "host", Units: []towpath.OfferedUnit{offered(0, "gate"), offered(1, "pump")}})
	add(21, towpath.AttemptStarted{Attempt: "a1"})
	add(22, towpath.AtomStarted{Attempt: "a1", Unit: unit(0)})
	add(2022, towpath.AtomReported{Attempt: "a1", Unit: unit(0), Report: towpath.AtomReport{Outcome: towpath.OutcomeFailed, Reason: "exit status 1", Duration: 2 * time.Second}})
	add(2022, towpath.AtomFinished{Atom: 0, State: towpath.AtomFailed, Reason: "exit status 1", Verdict: "a1"})
	add(2023, towpath.AtomStarted{Attempt: "a1", Unit: unit(1)})
	add(3023, towpath.AtomReported{Attempt: "a1", Unit: unit(1), Report: towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: time.Second}})
	add(3024, towpath.AtomFinished{Atom: 1, State: towpath.AtomPassed, Verdict: "a1"})
	add(3025, towpath.AttemptEnded{Attempt: "a1", Outcome: towpath.OutcomeFailed})
	add(3030, towpath.AtomFinished{Atom: 2, State: towpath.AtomFlaky, Reason: "failed in 1 of 2 attempts", Verdict: "a1"})
	add(3031, towpath.AtomFinished{Atom: 3, State: towpath.AtomSkipped, Reason: "no test files", Verdict: "a1"})
	counts := towpath.Counts{Total: 4, Passed: 1, Failed: 1, Flaky: 1, Skipped: 1}
	add(3040, towpath.BuildFinished{State: towpath.BuildFailed, Reason: "1 of 4 atoms failed", Atoms: counts, LowerBound: 2 * time.Second, Floor: "gate"})
	build = towpath.BuildInfo{
		Number: 7, Job: "test", State: towpath.BuildFailed, Reason: "1 of 4 atoms failed", Started: start, Finished: at(3040),
		Atoms: counts, Cases: towpath.Counts{Total: 5, Passed: 3, Failed: 1, Flaky: 1}, LowerBound: 2 * time.Second, Floor: "gate",
	}
	troubles = map[int]trouble{
		0: {name: "gate", state: "failed", reason: "exit status 1", cases: []towpath.CaseInfo{{Atom: "gate", Case: towpath.Case{
			Name: "opens", State: towpath.CaseFailed, Message: "shut\x1b[31m", Detail: "gate.c:7: shut\nwant open\n",
		}}}},
		2: {name: "rope", state: "flaky", reason: "failed in 1 of 2 attempts", output: "frayed\n", cut: true},
	}
	return events, build, troubles
}

// tell plays the story to a renderer.
func tell(r renderer) {
	events, build, troubles := story()
	t := newTracker(build.Number)
	for _, e := range events {
		t.apply(e.Event)
		r.event(t, e)
		if f, ok := e.Event.Body.(towpath.AtomFinished); ok {
			x, bad := troubles[f.Atom]
			r.result(t, f.Atom, x.cases)
			if bad {
				r.trouble(t, x)
			}
		}
	}
	r.finish(t, build, build.Finished)
}

func TestPlainOutput(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell(&plain{out: &out, slots: 2})
	golden(t, "plain.txt", out.Bytes())
}

func TestJSONOutput(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell(newJSONLines(&out, true))
	golden(t, "lines.json", out.Bytes())
}

func TestPlainOutputSaysOfALongSilenceWhatRuns(t *testing.T) {
	t.Parallel()
	events, build, _ := story()
	tr := newTracker(build.Number)
	var out bytes.Buffer
	p := &plain{out: &out, slots: 2}
	for _, e := range events[:5] {
		tr.apply(e.Event)
		p.event(tr, e)
	}
	out.Reset()
	p.tick(tr, events[4].Event.At.Add(quiet-time.Second))
	if out.Len() > 0 {
		t.Errorf("it spoke too early: %s", out.String())
	}
	p.tick(tr, events[4].Event.At.Add(quiet+time.Second))
	golden(t, "quiet.txt", out.Bytes())
}

func TestTheTerminalBlockNamesWhatRunsAndForHowLong(t *testing.T) {
	t.Parallel()
	events, build, _ := story()
	tr := newTracker(build.Number)
	for _, e := range events[:8] {
		tr.apply(e.Event)
	}
	l := &live{slots: 2}
	var out bytes.Buffer
	for _, line := range l.block(tr, events[7].Event.At.Add(500*time.Millisecond), 60) {
		out.WriteString(line + "\n")
	}
	golden(t, "block.txt", out.Bytes())
}
