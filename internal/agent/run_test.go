package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/agent"
)

// alive says whether there is a process of that number that has not ended.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	if errors.Is(err, syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func pids(t *testing.T, path string) (all []int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

func TestAGrandchildThatHoldsTheOutputDelaysNothingAndIsNamed(t *testing.T) { // H3
	t.Parallel()
	s, id := start(t, nil)
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `sleep 987 & echo ended`}
	begun := time.Now()
	s.offer(id, towpath.Offer{Attempt: "h3", Job: job, Units: units("x")})
	done(s, "h3")
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if r := report(s, "h3", 10); r.Outcome != towpath.OutcomePassed {
		t.Errorf("the report is %+v", r)
	}
	if text := s.text("h3", 0); !strings.Contains(text, "ended\n") || !strings.Contains(text, "outlived the command") ||
		!strings.Contains(text, "sleep 987") {
		t.Errorf("the log is %q", text)
	}
}

func TestALongLogKeepsItsStartAndItsEndAndSaysWhatIsMissing(t *testing.T) { // H4
	t.Parallel()
	const head, tail = 300 << 10, 20 << 10
	s, id := start(t, func(c *agent.Config) { c.LogHead, c.LogTail = head, tail })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `seq -f 'line %09.0f of a chatty test' 1000000`} // 32 bytes a line
	s.offer(id, towpath.Offer{Attempt: "h4", Job: job, Units: units("x")})
	if r := report(s, "h4", 10); r.Outcome != towpath.OutcomePassed {
		t.Errorf("the report is %+v", r)
	}
	s.mu.Lock()
	chunks := s.logs["h4"][0]
	s.mu.Unlock()
	const total = 32 * 1000000
	at, gaps := int64(0), int64(0)
	for _, c := range chunks {
		if c.Gap > 0 {
			if at != head {
				t.Errorf("the gap begins at %d, want %d", at, head)
			}
			gaps += c.Gap
		}
		if c.Offset != at+c.Gap {
			t.Fatalf("a chunk is at %d with a gap of %d, after %d", c.Offset, c.Gap, at)
		}
		at = c.Offset + int64(len(c.Data))
	}
	if at != total || gaps != total-head-tail {
		t.Errorf("the log ends at %d with gaps of %d, want %d and %d", at, gaps, total, total-head-tail)
	}
	text := s.text("h4", 0)
	if !strings.HasPrefix(text, "line 000000001 ") || !strings.HasSuffix(text, "line 001000000 of a chatty test\n") {
		t.Errorf("the log begins %.40q and ends %.40q", text, text[len(text)-40:])
	}
}

func TestALimitSaysWhetherTheTestWasBlockedOrBusy(t *testing.T) { // H5
	t.Parallel()
	s, id := start(t, func(c *agent.Config) { c.Slots = 3 })
	job := func(run string) *towpath.Job {
		return &towpath.Job{Slots: 1, PerAtom: true, Run: run, Timeouts: towpath.Timeouts{Silence: 4 * time.Second}}
	}
	s.offer(id, towpath.Offer{Attempt: "blocked", Job: job("echo x; sleep 600"), Units: units("x")})
	s.offer(id, towpath.Offer{Attempt: "busy", Job: job("echo x; while :; do :; done"), Units: units("x")})
	limited := units("x")
	limited[0].Limit = 5 * time.Second
	s.offer(id, towpath.Offer{Attempt: "limit", Job: job("while :; do echo x; sleep 0.1; done"), Units: limited})
	for attempt, want := range map[string]string{
		"blocked": "no output for 4s: blocked, no CPU used",
		"busy":    "no output for 4s: ",
		"limit":   "timed out after 5s (limit): ",
	} {
		r := report(s, attempt, 10)
		if r.Outcome != towpath.OutcomeTimedOut || !strings.HasPrefix(r.Reason, want) {
			t.Errorf("%s: %s, %q; want %q", attempt, r.Outcome, r.Reason, want)
		}
		// How much a test that spins gets depends on who else wants the CPUs.
		if blocked := strings.Contains(r.Reason, "no CPU used"); attempt == "busy" && blocked {
			t.Errorf("a test that spins ended with %q", r.Reason)
		}
	}
}

func TestAStopEndsTheWholeTreeAndFreesTheSlots(t *testing.T) { // C10
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { c.Slots, dir = 1, c.Dir })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `
		trap '' TERM
		sh -c 'trap "" TERM; echo $$ >> pids; sleep 600; sleep 600' &
		echo $$ >> pids
		while [ $(wc -l < pids) -lt 2 ]; do sleep 0.01; done
		echo up > up
		while :; do sleep 1; done`}
	s.offer(id, towpath.Offer{Attempt: "stop", Job: job, Units: units("x", "y")})
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	if err := s.hub.Send(towpath.Stop{Session: id, Attempt: "stop", Reason: "canceled by ann"}); err != nil {
		t.Fatal(err)
	}
	if d := done(s, "stop"); d.Outcome != towpath.OutcomeCanceled || d.Reason != "canceled by ann" {
		t.Errorf("it ended as %+v", d)
	}
	for _, pid := range pids(t, filepath.Join(dir, "pids")) {
		if alive(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
	if n := len(all[towpath.AtomBegan](s)); n != 1 {
		t.Errorf("%d atoms began, want only the first", n)
	}
	s.offer(id, towpath.Offer{Attempt: "next", Job: &towpath.Job{Slots: 1, PerAtom: true, Run: "true"}, Units: units("x")})
	if d := done(s, "next"); d.Outcome != towpath.OutcomePassed {
		t.Errorf("what was offered next ended as %+v", d)
	}
}

// waitFor waits until something outside has happened, which nobody announces.
func waitFor(t *testing.T, happened func() bool) {
	t.Helper()
	limit := time.NewTimer(guard)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-limit.C:
			t.Fatalf("it did not happen within %v", guard)
		case <-tick.C:
		}
	}
}

func TestARecallGivesBackTheLastUnitsThatHaveNotBegun(t *testing.T) {
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { dir = c.Dir })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `while [ ! -e go ]; do sleep 0.01; done; echo ran $1`}
	s.offer(id, towpath.Offer{Attempt: "r", Job: job, Units: units("a", "b", "c", "d")})
	await(s, func(b towpath.AtomBegan) bool { return b.Atom == 10 })
	for most, want := range map[int][]towpath.Unit{2: {{Atom: 12}, {Atom: 13}}} {
		if err := s.hub.Send(towpath.Recall{Session: id, Attempt: "r", Most: most}); err != nil {
			t.Fatal(err)
		}
		r := await[towpath.Recalled](s, nil)
		if fmt.Sprint(r.Units) != fmt.Sprint(want) {
			t.Errorf("recalled %v, want %v", r.Units, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done(s, "r")
	var ran []int
	for _, d := range all[towpath.AtomDone](s) {
		ran = append(ran, d.Atom)
	}
	if fmt.Sprint(ran) != "[10 11]" {
		t.Errorf("ran %v, want the two that were kept", ran)
	}
}

func TestARepeatedOfferIsRunOnceAndOneTooManyIsRefused(t *testing.T) {
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { c.Slots, dir = 1, c.Dir })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `while [ ! -e go ]; do sleep 0.01; done; echo once >> ran`}
	o := towpath.Offer{Attempt: "twice", Job: job, Units: units("x")}
	s.offer(id, o)
	s.offer(id, o)
	s.offer(id, towpath.Offer{Attempt: "more", Job: job, Units: units("x")})
	if d := done(s, "more"); d.Outcome != towpath.OutcomeErrored || d.Reason != "agent a1 has not 1 free slots" {
		t.Errorf("an offer too many ended as %+v", d)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done(s, "twice")
	s.offer(id, o)
	s.offer(id, towpath.Offer{Attempt: "last", Job: &towpath.Job{Slots: 1, Run: "true", PerAtom: true}, Units: units("x")})
	done(s, "last")
	if data, err := os.ReadFile(filepath.Join(dir, "ran")); string(data) != "once\n" {
		t.Errorf("it ran %q (%v)", data, err)
	}
}

func TestSetupFailsWithItsStatusAndLastWords(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	job := &towpath.Job{Slots: 1, Setup: "echo installing; echo no network >&2; exit 4", Teardown: "echo bye"}
	s.offer(id, towpath.Offer{Attempt: "setup", Kind: towpath.AttemptSetup, Job: job})
	d := done(s, "setup")
	if d.Outcome != towpath.OutcomeFailed || !strings.HasPrefix(d.Reason, "exit status 4: ") || !strings.Contains(d.Reason, "no network") {
		t.Errorf("it ended as %+v", d)
	}
	s.offer(id, towpath.Offer{Attempt: "down", Kind: towpath.AttemptTeardown, Job: job})
	if d := done(s, "down"); d.Outcome != towpath.OutcomePassed || s.text("down", -1) != "bye\n" {
		t.Errorf("it ended as %+v with log %q", d, s.text("down", -1))
	}
	s.offer(id, towpath.Offer{Attempt: "hang", Kind: towpath.AttemptSetup, Job: &towpath.Job{Slots: 1, Setup: "sleep 600"}, Limit: time.Second})
	if d := done(s, "hang"); d.Outcome != towpath.OutcomeTimedOut || !strings.HasPrefix(d.Reason, "timed out after 1s (limit)") {
		t.Errorf("it ended as %+v", d)
	}
}

func TestManyAtomsAreGivenInSeveralCommandLinesOrByTheFile(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("long/", 20), i)) // 300 KB
	}
	count := func(attempt, run string) (commands int, atoms int) {
		s.offer(id, towpath.Offer{Attempt: towpath.AttemptID(attempt), Job: &towpath.Job{Slots: 1, Run: run}, Units: units(names...)})
		done(s, attempt)
		for line := range strings.Lines(s.text(attempt, -1)) {
			n, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			commands, atoms = commands+1, atoms+n
		}
		return commands, atoms
	}
	if commands, atoms := count("args", `echo $#`); commands < 3 || commands > 5 || atoms != len(names) {
		t.Errorf("%d commands were given %d atoms of %d", commands, atoms, len(names))
	}
	if commands, atoms := count("file", `wc -l < "$TOWPATH_ATOMS_FILE"`); commands != 1 || atoms != len(names) {
		t.Errorf("%d commands were given %d atoms of %d by the file", commands, atoms, len(names))
	}
	if n := len(all[towpath.AtomDone](s)); n != 2*len(names) {
		t.Errorf("%d reports, want %d", n, 2*len(names))
	}
}

func TestACommandThatCannotStartIsAnErrorOfItsAtom(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	s.offer(id, towpath.Offer{Attempt: "a", Job: &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"no-such-tool", "{}"}}, Units: units("x")})
	if r := report(s, "a", 10); r.Outcome != towpath.OutcomeErrored || !strings.Contains(r.Reason, "no-such-tool") {
		t.Errorf("the report is %+v", r)
	}
	if d := done(s, "a"); d.Outcome != towpath.OutcomePassed {
		t.Errorf("the attempt ended as %+v", d)
	}
	s.offer(id, towpath.Offer{Attempt: "b", Job: &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"echo", "{}", "-n={}"}}, Units: units("$x y")})
	done(s, "b")
	if got, want := s.text("b", 0), "$x y -n=$x y\n"; got != want {
		t.Errorf("argv gave %q, want %q", got, want)
	}
}

func TestReportsOfOneAtomAreNotMetByTheNext(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `ls -A "$TOWPATH_REPORTS"; mkdir "$TOWPATH_REPORTS/d"; chmod 500 "$TOWPATH_REPORTS/d"; cat "$TOWPATH_ATOMS_FILE"; echo $TOWPATH_ATOM`}
	s.offer(id, towpath.Offer{Attempt: "a", Job: job, Units: units("x", "y")})
	done(s, "a")
	if got, want := s.text("a", 0)+s.text("a", 1), "x\nx\ny\ny\n"; got != want {
		t.Errorf("the atoms said %q, want %q", got, want)
	}
}

func TestALostSessionsWorkIsGivenUpAndTheAgentJoinsAgain(t *testing.T) { // C1
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { dir = c.Dir })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `echo $$ > pid; mv pid pids; sleep 600`}
	s.offer(id, towpath.Offer{Attempt: "old", Job: job, Units: units("x")})
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(dir, "pids")); return err == nil })
	s.hub.Refuse(id, "not heard from for 15s")
	next := await(s, func(h towpath.Hello) bool { return h.Session != id }).Session
	for _, pid := range pids(t, filepath.Join(dir, "pids")) {
		if alive(pid) {
			t.Errorf("process %d of the lost session lives on", pid)
		}
	}
	s.offer(next, towpath.Offer{Attempt: "new", Job: &towpath.Job{Slots: 1, PerAtom: true, Run: "true"}, Units: units("x")})
	if d := done(s, "new"); d.Outcome != towpath.OutcomePassed || d.Session != next {
		t.Errorf("the new session's attempt ended as %+v", d)
	}
	for _, d := range all[towpath.Done](s) {
		if d.Attempt == "old" {
			t.Errorf("the lost session still reported %+v", d)
		}
	}
	if got := all[towpath.Goodbye](s); len(got) != 0 {
		t.Errorf("the lost session said %+v", got)
	}
}

func TestADrainedAgentFinishesItsWorkAndLeaves(t *testing.T) { // C13, as far as one agent goes
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { dir = c.Dir })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `while [ ! -e go ]; do sleep 0.01; done`}
	s.offer(id, towpath.Offer{Attempt: "a", Job: job, Units: units("x", "y")})
	await[towpath.AtomBegan](s, nil)
	s.hub.Drain(id)
	await[towpath.Drain](s, nil)
	s.offer(id, towpath.Offer{Attempt: "b", Job: job, Units: units("x")})
	if d := done(s, "b"); d.Outcome != towpath.OutcomeErrored || d.Reason != "agent a1 is draining" {
		t.Errorf("an offer to a draining agent ended as %+v", d)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if bye := await[towpath.Goodbye](s, nil); bye.Reason != "drained" {
		t.Errorf("it said goodbye with %q", bye.Reason)
	}
	if n := len(all[towpath.AtomDone](s)); n != 2 {
		t.Errorf("%d atoms were reported before it left, want 2", n)
	}
}

func TestAttemptsThatShareAReportGlobRunOneAtATime(t *testing.T) {
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { c.Slots, dir = 3, c.Dir })
	job := &towpath.Job{
		Slots: 1, PerAtom: true, Report: towpath.Report{Kind: towpath.ReportJUnit, Glob: "out/*.xml"},
		Run: `mkdir alone || touch overlap; sleep 0.1; rmdir alone`,
	}
	for _, a := range []string{"a", "b", "c"} {
		s.offer(id, towpath.Offer{Attempt: towpath.AttemptID(a), Job: job, Units: units("x")})
	}
	for _, a := range []string{"a", "b", "c"} {
		done(s, a)
	}
	if _, err := os.Stat(filepath.Join(dir, "overlap")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("two of them ran at once (%v)", err)
	}
}

func TestABadJobIsRefusedAndHarmsNobody(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	for attempt, c := range map[string]struct {
		offer towpath.Offer
		want  string
	}{
		"kind":   {towpath.Offer{Kind: "dance", Job: &towpath.Job{Slots: 1}}, `an attempt of kind "dance" is not known here`},
		"report": {towpath.Offer{Job: &towpath.Job{Slots: 1, Report: towpath.Report{Kind: "morse"}}, Units: units("x")}, "report"},
		"empty":  {towpath.Offer{Job: &towpath.Job{Slots: 1}}, "agent a1 was offered an attempt without atoms"},
		"slots":  {towpath.Offer{Job: &towpath.Job{Slots: 9}, Units: units("x")}, "agent a1 has not 9 free slots"},
		"list":   {towpath.Offer{Kind: towpath.AttemptList, Job: &towpath.Job{}}, "neither a command nor a glob"},
	} {
		c.offer.Attempt = towpath.AttemptID(attempt)
		s.offer(id, c.offer)
		if d := done(s, attempt); d.Outcome != towpath.OutcomeErrored || !strings.Contains(d.Reason, c.want) {
			t.Errorf("%s: it ended as %+v, want %q", attempt, d, c.want)
		}
	}
}

func TestWhenItsConnectionDropsAnAgentEndsItsWorkAndJoinsAgain(t *testing.T) {
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { dir = c.Dir })
	job := &towpath.Job{Slots: 1, PerAtom: true, Run: `echo $$ > pid; mv pid pids; sleep 600`}
	s.offer(id, towpath.Offer{Attempt: "old", Job: job, Units: units("x")})
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(dir, "pids")); return err == nil })
	s.mu.Lock()
	conn := s.last
	s.mu.Unlock()
	_ = conn.Close()
	if bye := await[towpath.Goodbye](s, nil); bye.Session != id || bye.Reason != "the agent hung up" {
		t.Errorf("the sink was told %+v", bye)
	}
	await(s, func(h towpath.Hello) bool { return h.Session != id })
	for _, pid := range pids(t, filepath.Join(dir, "pids")) {
		if alive(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
}
