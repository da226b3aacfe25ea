package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// seed gives the samples with that ending, and pieces of them, to f.
func seed(f *testing.F, ext string, more ...string) {
	f.Helper()
	files, err := filepath.Glob("testdata/samples/*" + ext)
	if err != nil || len(files) == 0 {
		f.Fatalf("samples: %v, %v", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(7))
		f.Add(b[:len(b)/2], uint16(100))
	}
	for _, s := range more {
		f.Add([]byte(s), uint16(1))
	}
}

// holds checks what is true of every case, whatever was read.
func holds(t *testing.T, cases []towpath.Case) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range cases {
		switch {
		case seen[c.Name]:
			t.Fatalf("the name %q came twice", c.Name)
		case c.Name == "":
			t.Fatalf("a case without a name: %+v", c)
		case !utf8.ValidString(c.Name + c.Message + c.Detail + c.File):
			t.Fatalf("text is no UTF-8: %+v", c)
		case strings.ContainsAny(c.Message, "\n\x1b"):
			t.Fatalf("the message is no plain line: %q", c.Message)
		case len(c.Detail) > 200<<10 || len(c.Message) > 2<<10:
			t.Fatalf("%d bytes of text, %d of message", len(c.Detail), len(c.Message))
		case c.Duration < 0:
			t.Fatalf("it took %v", c.Duration)
		case c.State == towpath.CaseFailed && c.Message == "":
			t.Fatalf("a failure without a word: %+v", c)
		}
		seen[c.Name] = true
	}
}

func FuzzGoTest(f *testing.F) {
	seed(f, ".gotest", "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"A/\\u0000\"}\n{\"Action\":\"fail\"}\n", "\xff\x00\n")
	f.Fuzz(func(t *testing.T, in []byte, chunk uint16) {
		cases := map[string][]towpath.Case{}
		var packages []report.GoPackage
		g := report.NewGoTest(report.GoEvents{
			Case:   func(pkg string, c towpath.Case) { cases[pkg] = append(cases[pkg], c) },
			Result: func(p report.GoPackage) { packages = append(packages, p) },
		})
		feed(t, g, in, int(chunk)+1)
		s := g.Close()
		if s.Packages != len(packages) {
			t.Fatalf("%d results came, %d are counted", len(packages), s.Packages)
		}
		total := 0
		for _, p := range packages {
			total += p.Counts.Total
			bad := p.Counts.Failed + p.Counts.Unfinished
			if p.Outcome == "" || p.Outcome == towpath.OutcomePassed && (bad > 0 || !p.Ended || p.Claim != "pass" || p.Torn) {
				t.Fatalf("it cannot have passed: %+v", p)
			}
			if (p.Reason == "") != (p.Outcome == towpath.OutcomePassed) {
				t.Fatalf("outcome and reason: %+v", p)
			}
		}
		for pkg, list := range cases {
			total -= len(list)
			if strings.Count(string(in), `"Package"`) <= 1 || len(packages) == 1 { // a package may come again
				_ = pkg
				holds(t, list)
			}
		}
		if total != 0 {
			t.Fatalf("the counts and the cases differ by %d", total)
		}
	})
}

func FuzzTAP(f *testing.F) {
	seed(f, ".tap", "1..1\n    1..1\n        ok\n    ok\nok\n", "ok 1 # SKIP\\\n  ---\n", "1..99999999999\n", "Bail out!")
	f.Fuzz(func(t *testing.T, in []byte, chunk uint16) {
		var cases []towpath.Case
		r := report.NewTAP(func(c towpath.Case) { cases = append(cases, c) })
		feed(t, r, in, int(chunk)+1)
		res := r.Close()
		holds(t, cases)
		if got := report.CountCases(cases); got != res.Counts {
			t.Fatalf("it counts %+v, the cases are %+v", res.Counts, got)
		}
		bad := res.Counts.Failed + res.Counts.Unfinished
		if res.Outcome == "" || res.Outcome != towpath.OutcomeFailed && (bad > 0 || len(res.Problems) > 0 || res.BailOut != "") {
			t.Fatalf("it cannot have passed: %+v", res)
		}
		if (res.Reason == "") != (res.Outcome == towpath.OutcomePassed) {
			t.Fatalf("outcome and reason: %+v", res)
		}
	})
}

// FuzzJUnit also compares with the standard library: what that accepts as a JUnit file is read without an error, and with
// as many cases.
func FuzzJUnit(f *testing.F) {
	seed(f, ".xml", "<testsuite><testcase name='a'/>", "<testcase name=\"&#0;\"><failure><![CDATA[]]]]><![CDATA[>]]></failure></testcase>", "<\x00t\x00", "<!DOCTYPE [")
	f.Fuzz(func(t *testing.T, in []byte, chunk uint16) {
		var j report.JUnit
		var cases []towpath.Case
		titles := 0
		err := j.Read(&pieces{in, int(chunk) + 1}, func(c report.FileCase) error {
			cases = append(cases, c.Case)
			titles++
			return nil
		})
		holds(t, cases)
		want, ok := strictCases(in)
		if !ok {
			return
		}
		if err != nil {
			t.Fatalf("a strict parser accepts what gives %v", err)
		}
		if want != titles {
			t.Fatalf("%d cases, a strict parser sees %d", titles, want)
		}
	})
}

// strictCases counts the cases of a valid file of suites and cases. It is not ok for another, and for those in which
// cases are joined or nested.
func strictCases(in []byte) (int, bool) {
	if !utf8.Valid(in) || bytes.Contains(in, []byte("teardown")) || bytes.Contains(in, []byte("<!D")) || bytes.HasPrefix(in, []byte("<?")) {
		return 0, false
	}
	d := xml.NewDecoder(bytes.NewReader(in))
	var stack []string
	n, roots := 0, 0
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n, roots == 1 && len(stack) == 0
		}
		if err != nil {
			return 0, false
		}
		switch t := t.(type) {
		case xml.StartElement:
			name := t.Name.Local
			if len(stack) == 0 {
				roots++
				if name != "testsuite" && name != "testsuites" {
					return 0, false
				}
			}
			for _, above := range stack {
				if above == "testcase" && (name == "testcase" || name == "testsuite") {
					return 0, false
				}
			}
			if len(stack) > 0 && stack[len(stack)-1] == "testsuite" && (name == "failure" || name == "error") {
				return 0, false
			}
			if name == "testcase" {
				n++
			}
			stack = append(stack, name)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}

func FuzzWriteJUnit(f *testing.F) {
	f.Add("atom", "case", "message", "detail", uint8(0))
	f.Add("a<b", "\x00\x1b[31m", "\xff]]>", "&#0;\ufffe\uffff\r\n\t", uint8(3))
	f.Add("", "", "", "", uint8(2))
	f.Fuzz(func(t *testing.T, atom, name, message, detail string, state uint8) {
		states := []towpath.CaseState{towpath.CasePassed, towpath.CaseFailed, towpath.CaseSkipped, towpath.CaseFlaky, towpath.CaseQuarantined, towpath.CaseUnfinished}
		c := towpath.Case{Name: name, Message: message, Detail: detail, File: detail, State: states[int(state)%len(states)]}
		m := report.Merged{Job: name, Project: message, Atoms: []report.MergedAtom{
			{Name: atom, State: towpath.AtomPassed, Agent: message, Cases: []report.MergedCase{{Case: c}}},
			{Name: name, State: towpath.AtomFailed, Reason: message},
		}}
		var b bytes.Buffer
		if err := report.WriteJUnit(&b, m); err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(b.Bytes()) {
			t.Fatalf("no UTF-8: %q", b.Bytes())
		}
		mustBeXML(t, b.Bytes())
		cases, err := report.ReadJUnit(&b)
		if err != nil || len(cases) != 2 {
			t.Fatalf("read back: %d cases, %v", len(cases), err)
		}
		want := map[towpath.CaseState]towpath.CaseState{towpath.CaseQuarantined: towpath.CaseSkipped, towpath.CaseUnfinished: towpath.CaseFailed}[c.State]
		if want == "" {
			want = c.State
		}
		if cases[0].State != want || cases[1].State != towpath.CaseFailed {
			t.Fatalf("read back as %s and %s, wrote %s", cases[0].State, cases[1].State, c.State)
		}
	})
}
