package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// line is one object of --json, as far as these tests look at it.
type line struct {
	Type, Name, Atom, State, Outcome, Reason string
	Attempt, Attempts, Build                 int
}

// linesOf returns the objects of one type, in their order.
func linesOf(t *testing.T, r result, kind string) []line {
	t.Helper()
	var all []line
	for text := range strings.Lines(r.stdout) {
		var o line
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("a line of standard output is no JSON object: %v: %s", err, text)
		}
		if o.Type == kind {
			all = append(all, o)
		}
	}
	return all
}

// job is a towpath.yaml with the one job test, whose atoms each run atom.sh with their name.
func job(atoms, more string) string {
	return "version: 1\njobs:\n  test:\n    atoms: {list: [" + atoms + "]}\n    run: sh atom.sh \"$TOWPATH_ATOM\"\n    report: none\n" + more
}

// counts fails the test if a run did not exit so or has other counts of atoms than these; columns not named are 0.
func counts(t *testing.T, r result, code int, want map[string]int) {
	t.Helper()
	b := finished(t, r)
	total := 0
	for column, n := range b.Atoms {
		if column != "total" && n != want[column] {
			t.Errorf("%s is %d, want %d", column, n, want[column])
		}
		if column != "total" {
			total += n
		}
	}
	if r.code != code || total != b.Atoms["total"] {
		t.Errorf("exit %d, want %d; %d of %d atoms are in a column", r.code, code, total, b.Atoms["total"])
	}
	if t.Failed() {
		t.Logf("%s\n%s", r.stdout, r.stderr)
	}
}

// onceFails fails on the first run of each atom whose name begins with flaky, and always where it begins with bad.
const onceFails = `echo "$1" >>ran
case $1 in
bad*) echo "$1 leaks"; exit 3 ;;
flaky*) [ "$(grep -cx "$1" ran)" -gt 1 ] ;;
esac
`

func TestAFlakyBuildPassesAndSaysSo(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"atom.sh": onceFails, "towpath.yaml": job("flaky1, steady", "    retries: {failed: 2}\n")})
	r := p.towpath("run", "--json")
	counts(t, r, 0, map[string]int{"passed": 1, "flaky": 1})
	if b := finished(t, r); b.State != "passed" || !strings.Contains(b.Reason, "flaky") {
		t.Errorf("state %s, reason %q", b.State, b.Reason)
	}
	p.write("ran", "")
	if r := p.towpath("run"); r.code != 0 || !strings.Contains(r.stdout, "1 flaky") || !strings.Contains(r.stdout, "flaky flaky1") {
		t.Errorf("exit %d:\n%s", r.code, r.stdout)
	}
	p.write("ran", "")
	p.write("towpath.yaml", job("flaky1, steady", ""))
	counts(t, p.towpath("run", "--json"), 1, map[string]int{"passed": 1, "failed": 1}) // nothing is rerun unasked
	p.write("ran", "")
	counts(t, p.towpath("run", "--json", "--retries", "1"), 0, map[string]int{"passed": 1, "flaky": 1})
}

func TestQuarantinedAtomsRunOnceAndChangeNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"atom.sh":      onceFails,
		"towpath.yaml": job("bad1, bad2, good", "    retries: {failed: 3}\n    fail_fast: true\n    quarantine: [\"bad1\", {pattern: bad2, owner: lock-team, until: 2999-12-31}]\n"),
	})
	counts(t, p.towpath("run", "--json", "--slots", "1"), 0, map[string]int{"passed": 1, "quarantined": 2})
	for _, atom := range []string{"bad1", "bad2", "good"} {
		if n := strings.Count(p.read("ran"), atom+"\n"); n != 1 {
			t.Errorf("%s ran %d times", atom, n)
		}
	}
	if r := p.towpath("run"); r.code != 0 || !strings.Contains(r.stdout, "2 quarantined") {
		t.Errorf("exit %d:\n%s", r.code, r.stdout)
	}
	// the last day of one entry is over
	p.write("towpath.yaml", job("bad1, bad2, good", "    quarantine: [bad1, {pattern: bad2, until: 2020-02-29}]\n"))
	counts(t, p.towpath("run", "--json"), 1, map[string]int{"passed": 1, "quarantined": 1, "failed": 1})
}

// tapJob is a towpath.yaml whose atoms print TAP, each its own file.
const tapJob = "version: 1\njobs:\n  test:\n    atoms: {glob: \"*.tap\"}\n    run: cat \"$TOWPATH_ATOM\"; ! grep -q '^not ok' \"$TOWPATH_ATOM\"\n    report: tap\n"

func TestACaseInQuarantineHasItsOwnColumnAndHidesNoOther(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"lock.tap":     "1..3\nok 1 - gate\nnot ok 2 - clock\nok 3 - sluice\n",
		"towpath.yaml": tapJob + "    quarantine: [\"*::clock\"]\n",
	})
	r := p.towpath("run", "--json")
	counts(t, r, 0, map[string]int{"quarantined": 1})
	if c := finished(t, r).Cases; c["passed"] != 2 || c["quarantined"] != 1 || c["failed"] != 0 || c["total"] != 3 {
		t.Errorf("cases %v", c)
	}
	p.write("lock.tap", "1..3\nok 1 - gate\nnot ok 2 - clock\nnot ok 3 - sluice\n")
	r = p.towpath("run", "--json")
	counts(t, r, 1, map[string]int{"failed": 1})
	if c := finished(t, r).Cases; c["passed"] != 1 || c["quarantined"] != 1 || c["failed"] != 1 || c["total"] != 3 {
		t.Errorf("cases %v", c)
	}
}

func TestFailFastSkipsTheRestAndRetryFailedRunsWhatHasNoGoodResult(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"atom.sh": onceFails, "towpath.yaml": job("good1, bad, good2, good3, good4", "    batch: 1\n")})
	r := p.towpath("run", "--json", "--slots", "1", "--fail-fast")
	counts(t, r, 1, map[string]int{"passed": 1, "failed": 1, "skipped": 3})
	for _, a := range linesOf(t, r, "atom") {
		if a.State == "skipped" && (!strings.Contains(a.Reason, "fail") || !strings.Contains(a.Reason, "bad")) {
			t.Errorf("%s is skipped because %q", a.Atom, a.Reason)
		}
	}
	p.write("atom.sh", "echo \"$1\" >>again\n")
	counts(t, p.towpath("retry", "--failed", "--json", "--slots", "1"), 0, map[string]int{"passed": 4})
	ran := strings.Fields(p.read("again"))
	slices.Sort(ran)
	if got := strings.Join(ran, " "); got != "bad good2 good3 good4" {
		t.Errorf("it ran %s", got)
	}
	if r := p.towpath("retry", "--failed"); r.code != 2 || !strings.Contains(r.stderr, "nothing of build 2 failed") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// TestRetryFailedAndFlakyRerunsTakeSingleCasesOnly counts in a file which tests ran.
func TestRetryFailedAndFlakyRerunsTakeSingleCasesOnly(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"go.mod":           "module example.com/quay\n\ngo 1.21\n",
		"crane/x.go":       "package crane\n",
		"crane/x_test.go":  craneTest,
		"silent/x_test.go": "package silent\n\nimport \"testing\"\n\nfunc TestQuiet(t *testing.T) {}\n",
	})
	ran := filepath.Join(t.TempDir(), "ran")
	p.env = append(p.env, "CRANE_RAN="+ran, "CRANE_BAD=lift/full")
	names := func() string {
		t.Helper()
		data, err := os.ReadFile(ran)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(ran); err != nil {
			t.Fatal(err)
		}
		all := strings.Fields(string(data))
		slices.Sort(all)
		return strings.Join(all, " ")
	}

	r := p.towpath("run", "--json")
	counts(t, r, 1, map[string]int{"passed": 1, "failed": 1})
	if got := names(); got != "lift/empty lift/full turn" {
		t.Fatalf("the first run ran %s", got)
	}
	r = p.towpath("retry", "--failed", "--json")
	counts(t, r, 1, map[string]int{"failed": 1})
	if got := names(); got != "lift/full" {
		t.Errorf("retry --failed ran %s", got)
	}
	p.env = append(p.env, "CRANE_BAD=none")
	r = p.towpath("retry", "--failed", "1", "--json")
	counts(t, r, 0, map[string]int{"passed": 1})
	if got := names(); got != "lift/full" {
		t.Errorf("retry --failed 1 ran %s", got)
	}

	p.env = append(p.env, "CRANE_BAD=once")
	r = p.towpath("run", "--json", "--retries", "2", "--only", "example.com/quay/crane")
	counts(t, r, 0, map[string]int{"flaky": 1})
	if got := names(); got != "lift/empty lift/full lift/full turn" {
		t.Errorf("with --retries it ran %s", got)
	}
	states := map[string]string{}
	for _, c := range linesOf(t, r, "case") {
		states[c.Name] = c.State
	}
	if states["TestLift/full"] != "flaky" || states["TestLift/empty"] != "passed" || states["TestTurn"] != "passed" || len(states) != 4 {
		t.Errorf("cases %v", states)
	}
}

const craneTest = `package crane

import (
	"os"
	"strings"
	"testing"
)

func step(t *testing.T, name string) {
	was, _ := os.ReadFile(os.Getenv("CRANE_RAN"))
	if err := os.WriteFile(os.Getenv("CRANE_RAN"), append(was, name+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := os.Getenv("CRANE_BAD")
	if bad == name || bad == "once" && name == "lift/full" && !strings.Contains(string(was), name) {
		t.Errorf("%s broke", name)
	}
}

func TestLift(t *testing.T) {
	t.Run("empty", func(t *testing.T) { step(t, "lift/empty") })
	t.Run("full", func(t *testing.T) { step(t, "lift/full") })
}

func TestTurn(t *testing.T) { step(t, "turn") }
`

func TestBatchHandsOutExactlySoManyAtoms(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"towpath.yaml": "version: 1\njobs:\n  test:\n    atoms: {list: [a, b, c, d, e]}\n    run: echo \"$#\" >>sizes; wc -l <\"$TOWPATH_ATOMS_FILE\" >>sizes\n    report: none\n    batch: 2\n",
	})
	for _, c := range []struct{ flag, sizes string }{{"", "2 2 2 2 1 1"}, {"--batch=4", "4 4 1 1"}, {"--batch=1", "1 1 1 1 1 1 1 1 1 1"}} {
		p.write("sizes", "")
		args := []string{"run", "--json", "--slots", "1"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		counts(t, p.towpath(args...), 0, map[string]int{"passed": 5})
		if got := strings.Join(strings.Fields(p.read("sizes")), " "); got != c.sizes {
			t.Errorf("%s: attempts had %s atoms, want %s", c.flag, got, c.sizes)
		}
	}
}

// TestSlotsAndParallelBoundWhatRunsAtOnce lets two atoms wait for each other, and then forbids that they meet.
func TestSlotsAndParallelBoundWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	const meet = `case $1 in a) other=b ;; b) other=a ;; esac
touch "here-$1"
for i in $(seq 600); do [ -e "here-$other" ] && exit 0; sleep 0.1; done
exit 1
`
	p := newProject(t, map[string]string{"atom.sh": meet, "towpath.yaml": job("a, b", "    batch: 1\n")})
	counts(t, p.towpath("run", "--json", "--slots", "2"), 0, map[string]int{"passed": 2})

	const alone = `mkdir only || exit 1
sleep 0.3
rmdir only
`
	p = newProject(t, map[string]string{"atom.sh": alone, "towpath.yaml": job("a, b, c, d", "    batch: 1\n    parallel: {max: 1}\n")})
	counts(t, p.towpath("run", "--json", "--slots", "4"), 0, map[string]int{"passed": 4})
	p.write("towpath.yaml", job("a, b, c, d", "    batch: 1\n    slots: 3\n"))
	counts(t, p.towpath("run", "--json", "--slots", "4"), 0, map[string]int{"passed": 4})
}

func TestTheSecondRunBeginsWithTheLongest(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"atom.sh": "sleep \"$1\"\n", "towpath.yaml": job("\"0.1\", \"1.2\", \"0\", \"2.4\"", "    batch: 1\n")})
	for _, want := range []string{"0.1 1.2 0 2.4", "2.4 1.2 0.1 0"} {
		r := p.towpath("run", "--json", "--slots", "1")
		counts(t, r, 0, map[string]int{"passed": 4})
		var order []string
		for _, a := range linesOf(t, r, "atom_started") {
			order = append(order, a.Atom)
		}
		if got := strings.Join(order, " "); got != want && want != "2.4 1.2 0.1 0" || !strings.HasPrefix(got, strings.Fields(want)[0]) {
			t.Errorf("it began %s, want %s", got, want)
		} else if want == "2.4 1.2 0.1 0" && !strings.HasPrefix(got, "2.4 1.2 ") {
			t.Errorf("it began %s, want %s", got, want) // which of the two short ones took longer is chance
		}
	}
}

// TestADominatingPackageIsSplitAndOnesThatCannotBeAreRemembered runs three Go packages that each take longer than a
// quarter of the build: one can be split, one has a TestMain, one has tests that need the one before.
func TestADominatingPackageIsSplitAndOnesThatCannotBeAreRemembered(t *testing.T) {
	t.Parallel()
	const head = "package x\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nvar sum int\n\n"
	tests := func(body string) string {
		s := head
		for i := range 4 {
			s += fmt.Sprintf("func Test%d(t *testing.T) {\n\ttime.Sleep(time.Second)\n\tn := %d\n%s}\n\n", i, i, body)
		}
		return s
	}
	const names = "\tt.Run(\"sub\", func(t *testing.T) {})\n\t_ = n\n"
	p := newProject(t, map[string]string{
		"go.mod":            "module example.com/x\n\ngo 1.21\n",
		"plain/x_test.go":   tests(names) + "func TestSkipped(t *testing.T) { t.Skip(\"not now\") }\n\nfunc Example() {\n\t// Output:\n}\n\nfunc FuzzSeed(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) {})\n}\n",
		"main/x_test.go":    tests(names) + "func TestMain(m *testing.M) { m.Run() }\n",
		"ordered/x_test.go": tests("\tif sum != n {\n\t\tt.Fatal(\"out of order\")\n\t}\n\tsum++\n"),
	})
	// what each run says of each package: its attempts and the reason beside its result
	type told struct {
		attempts int
		reason   string
	}
	var first map[string]string
	run := func(turn int) map[string]told {
		t.Helper()
		r := p.towpath("run", "--json", "--slots", "4")
		counts(t, r, 0, map[string]int{"passed": 3})
		cases := map[string]string{}
		for _, c := range linesOf(t, r, "case") {
			cases[c.Atom+" "+c.Name] = c.State
		}
		if turn == 1 {
			first = cases
		} else {
			differences(t, "case", cases, first)
		}
		if b := finished(t, r); b.Cases["total"] != len(first) || b.Cases["skipped"] != 1 {
			t.Errorf("run %d: cases %v, %d names", turn, b.Cases, len(cases))
		}
		all := map[string]told{}
		for _, a := range linesOf(t, r, "atom") {
			all[strings.TrimPrefix(a.Atom, "example.com/x/")] = told{a.Attempts, a.Reason}
		}
		return all
	}
	for name, s := range run(1) {
		if s.attempts != 1 {
			t.Errorf("run 1: %s had %d attempts", name, s.attempts)
		}
	}
	second := run(2)
	if s := second["plain"]; s.attempts < 2 || s.reason != "" {
		t.Errorf("run 2: plain was not split: %+v", s)
	}
	if s := second["ordered"]; !strings.Contains(s.reason, "cannot be split") {
		t.Errorf("run 2: ordered passed whole only, and it says %+v", s)
	}
	third := run(3)
	if s := third["plain"]; s.attempts < 2 {
		t.Errorf("run 3: plain was not split: %+v", s)
	}
	for _, name := range []string{"main", "ordered"} {
		if s := third[name]; s.attempts != 1 {
			t.Errorf("run 3: %s was tried in parts again: %+v", name, s)
		}
	}
	t.Logf("second run: %+v; third run: %+v", second, third)
}

// TestAFailureInAPartIsNotAnsweredByARememberedPass breaks, behind go test's back, what a remembered result rests on.
func TestAFailureInAPartIsNotAnsweredByARememberedPass(t *testing.T) {
	t.Parallel()
	body := "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\n"
	for i := range 4 {
		body += fmt.Sprintf("func Test%d(t *testing.T) {\n\ttime.Sleep(700 * time.Millisecond)\n\tif _, err := os.Stat(os.Getenv(\"BROKEN\")); err == nil && %d == 2 {\n\t\tt.Error(\"the pump is broken\")\n\t}\n}\n\n", i, i)
	}
	p := newProject(t, map[string]string{"go.mod": "module example.com/x\n\ngo 1.21\n", "x_test.go": body})
	broken := filepath.Join(t.TempDir(), "broken")
	p.env = append(p.env, "BROKEN="+broken)
	counts(t, p.towpath("run", "--json", "--slots", "2"), 0, map[string]int{"passed": 1})
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.towpath("run", "--json", "--slots", "2")
	counts(t, r, 1, map[string]int{"failed": 1})
	if a := linesOf(t, r, "atom"); len(a) != 1 || a[0].Attempts < 2 || !strings.Contains(a[0].Reason, "Test2") {
		t.Errorf("it was not split, or does not name Test2: %+v", a)
	}
}

func TestAnAtomThatTheJobDoesNotHaveIsRefusedAndNotRun(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"atom.sh": "echo \"$1\" >>ran\n", "towpath.yaml": job("upper, lower", ""), "other.txt": ""})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--only", "uper"}, "did you mean upper"},
		{[]string{"run", "--only", "upper", "--only", "quay"}, "quay"},
		{[]string{"run", "--glob", "*.txt", "--only", "gone.txt", "--", "echo", "{}"}, "gone.txt"},
		{[]string{"run", "--batch", "0"}, "--batch"},
		{[]string{"run", "--retries", "-1"}, "--retries"},
		{[]string{"logs", "--offset", "-5"}, "--offset"},
	} {
		if r := p.towpath(c.args...); r.code != 2 || !strings.Contains(r.stderr, c.want) || strings.Count(strings.TrimSpace(r.stderr), "\n") != 0 {
			t.Errorf("%s: exit %d: %s", strings.Join(c.args, " "), r.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "ran")); err == nil {
		t.Error("something ran")
	}
	counts(t, p.towpath("run", "--json", "--only", "lower", "--only", "lower"), 0, map[string]int{"passed": 1})
	counts(t, p.towpath("run", "--json", "--glob", "*.txt", "--only", "other.txt", "--", "echo", "{}"), 0, map[string]int{"passed": 1})
}
