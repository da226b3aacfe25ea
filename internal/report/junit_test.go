package report_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/towpath/towpath/internal/report"
)

func junitStates(cases []report.FileCase) string {
	var got []string
	for _, c := range cases {
		got = append(got, fmt.Sprintf("%s:%s", c.Name, c.State))
	}
	return strings.Join(got, " ")
}

func TestJUnitReadsTheElementsOfEachDialect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, cases, err string }{
		{"case as root", `<testcase name="a"/>`, "a:passed", ""},
		{"status instead of elements", `<testsuite><testcase name="a" status="failed"/><testcase name="b" result="skipped"/><testcase name="c" status="fail" result="completed"/></testsuite>`, "a:failed b:skipped c:failed", ""},
		{"Surefire reruns", `<testsuite name="s"><testcase classname="A" name="a"><flakyFailure message="once"/></testcase><testcase classname="A" name="b"><failure message="x"/><rerunFailure message="again"/></testcase></testsuite>`, "A > a:flaky A > b:failed", ""},
		{"jest-junit", `<testsuites name="jest tests"><testsuite name="dock" errors="0"><testcase classname="dock opens" name="dock opens" time="0.003"/><testcase classname="dock" name="dock shuts"><failure>Error: expect(received)</failure></testcase></testsuite></testsuites>`, "dock opens:passed dock shuts:failed", ""},
		{"gotestsum", `<testsuites><testsuite name="example.com/p" timestamp="x"><properties><property name="go.version" value="go1.26"/></properties><testcase classname="example.com/p" name="TestA/b_c#01" time="0.01"><failure message="Failed" type="">=== RUN</failure></testcase></testsuite></testsuites>`, "example.com/p > TestA/b_c#01:failed", ""},
		{"GoogleTest", `<testsuites tests="2" disabled="1" name="AllTests"><testsuite name="Lock"><testcase name="Opens" file="l.cc" line="3" status="run" result="completed" time="0." classname="Lock"><failure message="l.cc:4&#x0A;Expected" type=""><![CDATA[l.cc:4]]></failure></testcase><testcase name="DISABLED_X" status="notrun" result="suppressed" classname="Lock"/></testsuite></testsuites>`, "Lock > Opens:failed Lock > DISABLED_X:skipped", ""},
		{"CTest", `<testsuite name="Linux-c++" tests="3" failures="1" disabled="1"><testcase name="a" classname="a" time="0.1" status="run"><system-out>ok</system-out></testcase><testcase name="b" classname="b" status="fail"><failure message=""/></testcase><testcase name="c" classname="c" status="disabled"><skipped message="Disabled"/></testcase></testsuite>`, "a:passed b:failed c:skipped", ""},
		{"RSpec", `<testsuite name="rspec" tests="2"><properties><property name="seed" value="1"/></properties><testcase classname="spec.lock_spec" name="Lock opens" file="./spec/lock_spec.rb" time="0.001"></testcase><testcase classname="spec.lock_spec" name="Lock later"><skipped/></testcase></testsuite>`, "spec.lock_spec > Lock opens:passed spec.lock_spec > Lock later:skipped", ""},
		{"pytest's failure in teardown", `<testsuite><testcase classname="A" name="a"/><testcase classname="A" name="a"><error message="failed on teardown with x"/></testcase></testsuite>`, "A > a:failed", ""},
		{"two of one name, one failed", `<testsuite><testcase classname="A" name="a"/><testcase classname="A" name="a"><error message="x"/></testcase></testsuite>`, "A > a:passed A > a #2:failed", ""},
		{"teardown of another", `<testsuite><testcase name="a"/><testcase name="b"/><testcase name="a"><error message="failed on teardown with x"/></testcase></testsuite>`, "a:passed b:passed a #2:failed", ""},
		{"failure deeper down is text of others", `<testsuite><testcase name="a"><properties><failure/></properties><system-out>x</system-out></testcase></testsuite>`, "a:passed", ""},
		{"failure of a suite itself", `<testsuite name="s"><error message="no water"/><testcase name="a"/></testsuite>`, "s:failed s > a:passed", ""},
		{"namespaces and single quotes", `<?xml version='1.0'?><j:testsuite xmlns:j='u' name='s'><j:testcase name='a "b"'><j:failure/></j:testcase></j:testsuite>`, `s > a "b":failed`, ""},
		{"doctype and comments", `<!DOCTYPE x [<!ELEMENT y (z)> <!-- > ]] -->]><!-- <testcase name="no"/> ---><testsuite><!----><testcase name="a"/></testsuite>`, "a:passed", ""},
		{"more roots than one", `<testsuite><testcase name="a"/></testsuite><testsuite><testcase name="a"/></testsuite>`, "a:passed a #2:passed", ""},
		{"a bare < and & in the text", `<testsuite><testcase name="a"><failure>1 < 2 && 3 <= 4 &bogus; &#xZZ;</failure></testcase></testsuite>`, "a:failed", ""},
		{"suites without cases", `<testsuites><testsuite name="s" tests="0"/></testsuites>`, "", ""},
		{"empty", "", "", "there is no testsuite"},
		{"no XML", "PASS\n", "", "there is no testsuite"},
		{"another XML", "<html><body/></html>", "", "line 1: this is no JUnit: <html>"},
		{"torn in a failure", "<testsuite>\n<testcase name=\"a\"/>\n<testcase name=\"b\"><failure>so", "a:passed b:failed", "line 3: the file ends inside <failure> of line 3"},
		{"torn in a case", "<testsuite>\n<testcase name=\"a\">", "a:unfinished", "line 2: the file ends inside <testcase>"},
		{"torn in a tag", "<testsuite>\n<testcase name=\"a\"/>\n<testc", "a:passed", "line 3: the file ends inside <testsuite>"},
		{"torn in CDATA", "<testsuite><testcase name=\"a\"><failure><![CDATA[x]]", "a:failed", "the file ends inside <failure>"},
		{"ends that do not fit", "<testsuite><testcase name=\"a\"><failure></testcase>\n</x><testcase name=\"b\"/></testsuite>", "a:failed b:passed", "line 1: </testcase>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cases, err := report.ReadJUnit(strings.NewReader(test.in))
			if got := junitStates(cases); got != test.cases {
				t.Errorf("got %q, want %q", got, test.cases)
			}
			if said := fmt.Sprint(err); (err != nil) != (test.err != "") || !strings.Contains(said, test.err) && err != nil {
				t.Errorf("got error %v, want %q", err, test.err)
			}
		})
	}
}

func TestJUnitReadsEachEncoding(t *testing.T) {
	t.Parallel()
	const body = `<testsuite name="écluse"><testcase name="€ 😀"><failure message="für"/></testcase></testsuite>`
	wide := func(order func(u uint16) [2]byte, mark bool) string {
		var b strings.Builder
		text := `<?xml version="1.0" encoding="UTF-16"?>` + body
		if mark {
			text = "\ufeff" + text
		}
		for _, u := range utf16.Encode([]rune(text)) {
			two := order(u)
			b.Write(two[:])
		}
		return b.String()
	}
	little := func(u uint16) [2]byte { return [2]byte{byte(u), byte(u >> 8)} }
	big := func(u uint16) [2]byte { return [2]byte{byte(u >> 8), byte(u)} }
	for name, in := range map[string]string{
		"UTF-8":                       body,
		"UTF-8 with a mark":           "\xef\xbb\xbf" + body,
		"UTF-16, little end first":    wide(little, true),
		"UTF-16, big end first":       wide(big, true),
		"UTF-16 without a mark":       wide(little, false),
		"UTF-8 that says it is wider": `<?xml version="1.0" encoding="utf-16"?>` + body,
	} {
		cases, err := report.ReadJUnit(iotestOneByte{strings.NewReader(in)})
		if err != nil || len(cases) != 1 || cases[0].Name != "écluse > € 😀" || cases[0].Message != "für" {
			t.Errorf("%s: got %+v, %v", name, cases, err)
		}
	}
	cases, err := report.ReadJUnit(strings.NewReader("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><testsuite name=\"\xe9cluse\"><testcase name=\"\x80\"/></testsuite>"))
	if err != nil || len(cases) != 1 || cases[0].Name != "écluse > €" {
		t.Errorf("Latin-1: got %+v, %v", cases, err)
	}
}

type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func TestJUnitTimesAndPlacesAreRead(t *testing.T) {
	t.Parallel()
	cases, err := report.ReadJUnit(strings.NewReader(`<testsuite name="s" file="s.js"><testcase name="a" time="1,234.5"/><testcase name="b" time="0.25s" file="b.js" line="7"/><testcase name="c" time="-1"/><testcase name="d" time="NaN"/><testcase name="e" time="1e300"/></testsuite>`))
	if err != nil || len(cases) != 5 {
		t.Fatalf("got %+v, %v", cases, err)
	}
	if a := cases[0]; a.Duration != 1234500*time.Millisecond || a.File != "s.js" {
		t.Errorf("got %+v", a)
	}
	if b := cases[1]; b.Duration != 250*time.Millisecond || b.File != "b.js" || b.Line != 7 {
		t.Errorf("got %+v", b)
	}
	for _, c := range cases[2:] {
		if c.Duration < 0 || c.Name != "s > e" && c.Duration != 0 {
			t.Errorf("%s took %v", c.Name, c.Duration)
		}
	}
}

func TestNamesStayUniqueAcrossFiles(t *testing.T) {
	t.Parallel()
	var j report.JUnit
	var got []string
	for range 3 {
		if err := j.Read(strings.NewReader(`<testsuite><testcase name="a"/><testcase name="a #2"/></testsuite>`), func(c report.FileCase) error {
			got = append(got, c.Name)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, name := range got {
		if seen[name] {
			t.Errorf("%q came twice: %q", name, got)
		}
		seen[name] = true
	}
}

func TestAnErrorOfTheCallbackEndsTheReading(t *testing.T) {
	t.Parallel()
	stop := errors.New("full")
	var j report.JUnit
	err := j.Read(strings.NewReader(`<testsuite><testcase name="a"/><testcase name="b"/></testsuite>`), func(report.FileCase) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
