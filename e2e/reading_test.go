package e2e

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestTwoKindsInOneFolderAreNamedAndEachCanBeChosen(t *testing.T) {
	t.Parallel()
	need(t, "pytest", pytest(t) != "")
	p := newProject(t, map[string]string{
		"go.mod":        "module example.com/both\n\ngo 1.21\n",
		"x_test.go":     "package both\n\nimport \"testing\"\n\nfunc TestGate(t *testing.T) {}\n",
		"pytest.ini":    "[pytest]\n",
		"test_toll.py":  "def test_day():\n    pass\n\n\ndef test_night():\n    pass\n",
		"docs/notes.md": "nothing\n",
	})
	p.env = append(p.env, "PATH="+filepath.Dir(pytest(t))+":"+os.Getenv("PATH"))
	r := p.towpath("run")
	if r.code != 2 || !strings.Contains(r.stderr, "towpath run go") || !strings.Contains(r.stderr, "towpath run pytest") || strings.Count(strings.TrimSpace(r.stderr), "\n") != 0 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	for _, how := range []string{"by recognition", "by the file that init wrote"} {
		for job, cases := range map[string]int{"go": 1, "pytest": 2} {
			r := p.towpath("run", job, "--json")
			if b := finished(t, r); r.code != 0 || b.Cases["passed"] != cases || b.Cases["total"] != cases {
				t.Errorf("%s: run %s: exit %d, cases %v %s", how, job, r.code, b.Cases, r.stderr)
			}
		}
		if how == "by recognition" {
			if r := p.towpath("init"); r.code != 0 {
				t.Fatalf("init: exit %d: %s", r.code, r.stderr)
			}
		}
	}
	if r := p.towpath("run"); r.code != 2 || !strings.Contains(r.stderr, "go") || !strings.Contains(r.stderr, "pytest") {
		t.Errorf("with the file: exit %d: %s", r.code, r.stderr)
	}
}

// strictXML reads XML to its end with a strict decoder, counts elements, and adds up the attributes that are numbers.
func strictXML(t *testing.T, data string) (elements map[string]int, sums map[string]int) {
	t.Helper()
	elements, sums = map[string]int{}, map[string]int{}
	d := xml.NewDecoder(strings.NewReader(data))
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if depth != 0 || elements["testsuites"] != 1 {
				t.Errorf("%d elements are open at the end; elements %v", depth, elements)
			}
			return elements, sums
		}
		if err != nil {
			t.Fatalf("the JUnit file is no XML: %v\n%s", err, data)
		}
		switch e := token.(type) {
		case xml.StartElement:
			depth++
			elements[e.Name.Local]++
			seen := map[string]bool{}
			for _, a := range e.Attr {
				if seen[a.Name.Local] {
					t.Errorf("%s has %s twice", e.Name.Local, a.Name.Local)
				}
				seen[a.Name.Local] = true
				if n, err := strconv.Atoi(a.Value); err == nil {
					sums[e.Name.Local+"."+a.Name.Local] += n
				}
			}
		case xml.EndElement:
			depth--
		}
	}
}

// TestTheMergedFilesHoldWhatTheSummarySays has names and output that are hard on XML.
func TestTheMergedFilesHoldWhatTheSummarySays(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"a.tap": "1..5\nok 1 - gate <&> \"quoted\" 'single' ]]> \u00e9 \U0001F6F6\nnot ok 2 - control \x01\x1b[31m \x7f \xff\xfe end\n# said \x00 \x0b <![CDATA[ ]]>\n" +
			"ok 3 - old # SKIP not in summer\nnot ok 4 - later # TODO\nnot ok 5 - clock\n",
		"b.tap":        "1..3\nok 1 - one\nok 2 - two\n",
		"c.tap":        "1..1\nok 1 - fine\n",
		"d.tap":        "1..0 # SKIP nothing here\n",
		"towpath.yaml": tapJob + "    quarantine: [\"*::clock\"]\n",
	})
	r := p.towpath("run", "--json", "--junit", "all.xml", "--report", "all.json")
	b := finished(t, r)
	if r.code != 1 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	var doc struct {
		Format     int
		Build      int
		State      string
		AtomCounts map[string]int `json:"atom_counts"`
		CaseCounts map[string]int `json:"case_counts"`
		Atoms      []struct {
			Name, State string
			CaseCounts  map[string]int `json:"case_counts"`
			Cases       []struct{ Name, State string }
		}
	}
	if err := json.Unmarshal([]byte(p.read("all.json")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != 1 || doc.Build != b.Build || doc.State != b.State {
		t.Errorf("the report is of build %d, %s; format %d", doc.Build, doc.State, doc.Format)
	}
	states, atoms := map[string]int{}, map[string]int{}
	for _, a := range doc.Atoms {
		atoms[a.State]++
		atoms["total"]++
		own := map[string]int{}
		for _, c := range a.Cases {
			states[c.State]++
			states["total"]++
			own[c.State]++
		}
		for state, n := range own {
			if a.CaseCounts[state] != n {
				t.Errorf("%s holds %d cases that are %s and counts %d", a.Name, n, state, a.CaseCounts[state])
			}
		}
	}
	for what, c := range map[string][3]map[string]int{"cases": {b.Cases, states, doc.CaseCounts}, "atoms": {b.Atoms, atoms, doc.AtomCounts}} {
		for column, n := range c[0] {
			if c[1][column] != n || c[2][column] != n {
				t.Errorf("%s: the summary has %d %s, the report holds %d and counts %d", what, n, column, c[1][column], c[2][column])
			}
		}
	}
	if b.Cases["failed"] != 1 || b.Cases["skipped"] != 2 || b.Cases["quarantined"] != 1 || b.Cases["unfinished"] != 1 || b.Cases["passed"] != 4 {
		t.Errorf("cases %v", b.Cases)
	}

	elements, sums := strictXML(t, p.read("all.xml"))
	// an atom that has no cases gets a testcase of its own name
	alone := 0
	for _, a := range doc.Atoms {
		if len(a.Cases) == 0 {
			alone++
		}
	}
	if elements["testsuite"] != b.Atoms["total"] || elements["testcase"] != b.Cases["total"]+alone {
		t.Errorf("%d testsuites and %d testcases of %d atoms, %d cases and %d atoms without", elements["testsuite"], elements["testcase"], b.Atoms["total"], b.Cases["total"], alone)
	}
	for attribute, want := range map[string]int{"tests": elements["testcase"], "failures": elements["failure"], "errors": elements["error"], "skipped": elements["skipped"]} {
		if sums["testsuites."+attribute] != want || sums["testsuite."+attribute] != want {
			t.Errorf("%s: %d elements, testsuites says %d, its suites %d", attribute, want, sums["testsuites."+attribute], sums["testsuite."+attribute])
		}
	}
	if elements["failure"] != b.Cases["failed"] || elements["error"] != b.Cases["unfinished"] || elements["skipped"] != b.Cases["skipped"]+b.Cases["quarantined"]+alone {
		t.Errorf("elements %v, cases %v", elements, b.Cases)
	}
}

// TestLogsFollowABuildFromAnotherShellToItsEnd lets the atom wait until the follower has shown its first line.
func TestLogsFollowABuildFromAnotherShellToItsEnd(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{
		"atom.sh":      "echo 'first é line'\nfor i in $(seq 600); do [ -e shown ] && break; sleep 0.1; done\nseq 20000\nprintf 'the end, without a newline'\n",
		"towpath.yaml": job("one", ""),
	})
	wait, _ := p.started(`"atom_started"`, "run", "--json")
	rest, _ := p.started("first é line", "logs", "-f")
	p.write("shown", "")
	follower := rest()
	r := wait()
	b := finished(t, r)
	if r.code != 0 || follower.code != 0 {
		t.Errorf("run: exit %d, logs -f: exit %d: %s", r.code, follower.code, follower.stderr)
	}
	want := "first é line\n"
	for i := 1; i <= 20000; i++ {
		want += strconv.Itoa(i) + "\n"
	}
	want += "the end, without a newline"
	if !strings.Contains(follower.stdout, want) {
		t.Errorf("logs -f printed %d bytes, ending in %q; the log has %d", len(follower.stdout), tail(follower.stdout), len(want))
	}
	number := strconv.Itoa(b.Build)
	if got := p.towpath("logs", number, "one").stdout; got != want {
		t.Errorf("logs printed %d bytes, ending in %q; the log has %d", len(got), tail(got), len(want))
	}
	for _, offset := range []int{1, 7, 14, 65536, len(want) - 1, len(want)} { // 7 is inside the é
		if got := p.towpath("logs", number, "one", "--offset", strconv.Itoa(offset)).stdout; got != want[offset:] {
			t.Errorf("from byte %d: %d bytes, want %d", offset, len(got), len(want)-offset)
		}
	}
	// what --json says of offsets fits together
	at := 0
	sc := bufio.NewScanner(strings.NewReader(p.towpath("logs", number, "one", "--json").stdout))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var o struct {
			Offset int
			Gap    int
			Text   string
		}
		if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if o.Offset != at || o.Gap != 0 {
			t.Fatalf("a piece begins at %d after a gap of %d, want %d and none", o.Offset, o.Gap, at)
		}
		at += len(o.Text)
	}
	if at != len(want) {
		t.Errorf("--json gave %d bytes of %d", at, len(want))
	}
}

func tail(s string) string { return s[max(0, len(s)-60):] }

func TestShowTellsTheHistoryOfACaseNewestFirst(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"towpath.yaml": tapJob})
	want := []string{"passed", "failed", "passed"}
	for _, state := range want {
		p.write("lock.tap", "1..2\n"+map[string]string{"passed": "", "failed": "not "}[state]+"ok 1 - gate is shut\nok 2 - other\n")
		if r := p.towpath("run"); (r.code == 0) != (state == "passed") {
			t.Fatalf("exit %d: %s", r.code, r.stdout)
		}
	}
	r := p.towpath("show", "--atom", "lock.tap", "--case", "gate is shut", "--json")
	history := linesOf(t, r, "history")
	if len(history) != len(want) {
		t.Fatalf("exit %d, %d results: %s%s", r.code, len(history), r.stdout, r.stderr)
	}
	for i, h := range history {
		if build := len(want) - i; h.Build != build || h.State != want[build-1] || h.Name != "gate is shut" || h.Atom != "lock.tap" {
			t.Errorf("result %d: %+v", i, h)
		}
	}
	r = p.towpath("show", "2", "--atom", "lock.tap", "--case", "gate is shut")
	if r.code != 0 || !strings.Contains(r.stdout, "failed") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = p.towpath("show", "--atom", "lock.tap", "--case", "gate is open")
	if r.code != 2 || !strings.Contains(r.stderr, "gate is open") {
		t.Errorf("an unknown case: exit %d: %s", r.code, r.stderr)
	}
	if r := p.towpath("show", "2", "--atom", "lock.tap"); r.code != 0 || !strings.Contains(r.stdout, fmt.Sprintf("%s gate is shut", "failed")) || !strings.Contains(r.stdout, "other") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
