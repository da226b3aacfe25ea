package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

func sampleBuild() report.Merged {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	atoms := []towpath.AtomInfo{
		{Name: "lock", State: towpath.AtomFailed, Reason: "b failed", Started: at, Duration: 1500 * time.Millisecond, Agent: "local", Attempts: []int{1, 2}},
		{Name: "quay", State: towpath.AtomLost, Reason: "its worker went away 3 times"},
		{Name: "dock", State: towpath.AtomPassed},
		{Name: "crane", State: towpath.AtomFailed, Reason: "exit status 7"},
		{Name: "rope", State: towpath.AtomQuarantined, Reason: "quarantined until May"},
		{Name: "winch", State: towpath.AtomSkipped, Reason: "nothing to do"},
		{Name: "pump", State: towpath.AtomFlaky, Reason: "failed once"},
		{Name: "valve", State: towpath.AtomCanceled},
	}
	add := func(atom, name string, state towpath.CaseState, message, detail string) towpath.CaseInfo {
		return towpath.CaseInfo{Atom: atom, Attempts: 1, Case: towpath.Case{Name: name, State: state, Message: message, Detail: detail, Duration: time.Second}}
	}
	return report.Merge(
		towpath.BuildInfo{Number: 7, Project: "yard", Job: "test", State: towpath.BuildFailed, Started: at, Finished: at.Add(3 * time.Second)},
		atoms, []towpath.CaseInfo{
			add("lock", "a", towpath.CasePassed, "", "said <hello> & ]]> \x1b[31mred\x1b[0m"),
			add("lock", "b", towpath.CaseFailed, "low \"water\"\x00", "line 1\r\nline 2\n\ttab"),
			add("lock", "c", towpath.CaseSkipped, "", ""),
			add("lock", "d", towpath.CaseFlaky, "once", "and again"),
			add("lock", "e", towpath.CaseQuarantined, "broken", "text"),
			add("lock", "f", towpath.CaseUnfinished, "no result", ""),
			add("crane", "g", towpath.CasePassed, "", ""),
			add("unlisted", "h", towpath.CaseFailed, "", ""),
		})
}

func TestTheJUnitFileReadsBackAsTheSameResults(t *testing.T) {
	t.Parallel()
	m := sampleBuild()
	var b bytes.Buffer
	if err := report.WriteJUnit(&b, m); err != nil {
		t.Fatal(err)
	}
	mustBeXML(t, b.Bytes())
	cases, err := report.ReadJUnit(&b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range cases {
		got[c.Class+"/"+c.Title] = string(c.State) + ": " + c.Message
	}
	want := map[string]string{
		"lock/a":      "passed: ",
		"lock/b":      "failed: low \"water\"\uFFFD",
		"lock/c":      "skipped: ",
		"lock/d":      "flaky: once",
		"lock/e":      "skipped: quarantined: broken",
		"lock/f":      "failed: no result",
		"quay/quay":   "failed: its worker went away 3 times",
		"dock/dock":   "passed: ",
		"crane/g":     "passed: ",
		"crane/crane": "failed: exit status 7",
		"rope/rope":   "skipped: quarantined until May",
		"winch/winch": "skipped: nothing to do",
		"pump/pump":   "flaky: failed once",
		"valve/valve": "failed: canceled",
		"unlisted/h":  "failed: failed without a message",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, c := range cases {
		if c.Title == "b" && c.Detail != "low \"water\"\uFFFD\nline 1\r\nline 2\n\ttab" {
			t.Errorf("b's text is %q", c.Detail)
		}
	}
}

func TestTheTotalsOfTheJUnitFileAreThoseOfItsElements(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := report.WriteJUnit(&b, sampleBuild()); err != nil {
		t.Fatal(err)
	}
	type suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	}
	var doc struct {
		suite
		Suites []suite `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var all [4]int
	for _, s := range doc.Suites {
		var n [4]int
		for _, c := range s.Cases {
			n[0]++
			for i, is := range []bool{c.Failure != nil, c.Error != nil, c.Skipped != nil} {
				if is {
					n[i+1]++
				}
			}
		}
		if said := [4]int{s.Tests, s.Failures, s.Errors, s.Skipped}; said != n {
			t.Errorf("a suite says %v and has %v", said, n)
		}
		for i := range all {
			all[i] += n[i]
		}
	}
	if said := [4]int{doc.Tests, doc.Failures, doc.Errors, doc.Skipped}; said != all || all[0] != 15 {
		t.Errorf("the file says %v and has %v", said, all)
	}
}

func TestTheJSONFileHoldsTheWholeResult(t *testing.T) {
	t.Parallel()
	m := sampleBuild()
	var b bytes.Buffer
	if err := report.WriteJSON(&b, m); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Format     int            `json:"format"`
		Build      int            `json:"build"`
		State      string         `json:"state"`
		Seconds    float64        `json:"duration_seconds"`
		AtomCounts towpath.Counts `json:"atom_counts"`
		CaseCounts towpath.Counts `json:"case_counts"`
		Atoms      []struct {
			Name       string         `json:"name"`
			CaseCounts towpath.Counts `json:"case_counts"`
			Cases      []struct {
				Name, State, Detail string
				Seconds             float64 `json:"duration_seconds"`
			} `json:"cases"`
		} `json:"atoms"`
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != 1 || doc.Build != 7 || doc.State != "failed" || doc.Seconds != 3 || len(doc.Atoms) != 9 {
		t.Errorf("got %+v", doc)
	}
	if doc.AtomCounts != m.AtomCounts() || doc.CaseCounts != m.CaseCounts() {
		t.Errorf("got %+v and %+v", doc.AtomCounts, doc.CaseCounts)
	}
	want := towpath.Counts{Total: 8, Passed: 2, Failed: 2, Flaky: 1, Skipped: 1, Quarantined: 1, Unfinished: 1}
	if doc.CaseCounts != want {
		t.Errorf("got %+v, want %+v", doc.CaseCounts, want)
	}
	if c := doc.Atoms[0].Cases[1]; c.Name != "b" || c.State != "failed" || c.Seconds != 1 || c.Detail != "line 1\r\nline 2\n\ttab" {
		t.Errorf("got %+v", c)
	}
	if lines := strings.Count(b.String(), "\n"); lines != 11 {
		t.Errorf("%d lines for 9 atoms", lines)
	}
}

func TestWritersTellThatTheFileIsFull(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for name, write := range map[string]func(io.Writer, report.Merged) error{"JUnit": report.WriteJUnit, "JSON": report.WriteJSON} {
		if err := write(failing{full}, sampleBuild()); !errors.Is(err, full) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// mustBeXML reads b with a strict parser.
func mustBeXML(t *testing.T, b []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("a strict parser says %v of:\n%q", err, b)
		}
	}
}
