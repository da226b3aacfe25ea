package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// goRun reads a stream and keeps what it brought.
type goRun struct {
	cases    []towpath.Case
	packages []report.GoPackage
	output   strings.Builder
	sum      report.GoSummary
}

func readGo(t *testing.T, in string) *goRun {
	t.Helper()
	var r goRun
	g := report.NewGoTest(report.GoEvents{
		Output: func(pkg string, p []byte) { fmt.Fprintf(&r.output, "[%s]%s", pkg, p) },
		Case:   func(_ string, c towpath.Case) { r.cases = append(r.cases, c) },
		Result: func(p report.GoPackage) { r.packages = append(r.packages, p) },
	})
	feed(t, g, []byte(in), 100)
	r.sum = g.Close()
	return &r
}

func (r *goRun) states() string {
	var b strings.Builder
	for _, c := range r.cases {
		fmt.Fprintf(&b, "%s:%s ", c.Name, c.State)
	}
	return strings.TrimSpace(b.String())
}

func TestAGoPackageNeverPassesWhatItDoesNotProve(t *testing.T) {
	t.Parallel()
	const (
		run  = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n"
		pass = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.5}` + "\n"
		fail = `{"Action":"fail","Package":"p","Test":"TestA"}` + "\n"
		word = `{"Action":"output","Package":"p","Output":"PASS\n"}` + "\n"
		good = `{"Action":"pass","Package":"p"}` + "\n"
		bad  = `{"Action":"fail","Package":"p"}` + "\n"
	)
	for _, test := range []struct{ name, in, outcome, cases, reason string }{
		{"all is well", run + pass + word + good, "passed", "TestA:passed", ""},
		{"a test failed and the package says pass", run + fail + good, "failed", "TestA:failed", "though the package says it passed"},
		{"no result of the package", run + pass, "failed", "TestA:passed", "ended before its result"},
		{"a test without an end", run + word + good, "failed", "TestA:unfinished", "1 of 1 tests began and have no result"},
		{"running when it crashed", run + bad, "failed", "TestA:failed", "TestA failed"},
		{"paused when it crashed", run + `{"Action":"pause","Package":"p","Test":"TestA"}` + "\n" + bad, "failed", "TestA:unfinished", "began and have no result"},
		{"the output broke off", run + `{"Action":"pass","Package":"p","Te`, "failed", "TestA:failed", "TestA failed"},
		{"an event is broken in the middle", run + pass + `{"Action":"fail","Package":"p","Test":"TestB{"Action"` + "\n" + word + good, "failed", "TestA:passed", "is broken"},
		{"no test and no word", good, "failed", "", "without running a test"},
		{"a result twice", run + pass + pass + word + good, "passed", "TestA:passed", ""},
		{"a pass, then a failure of the same run", run + pass + fail + word + good, "failed", "TestA:passed TestA #2:failed", "TestA failed"},
		{"a result without a beginning", pass + word + good, "passed", "TestA:passed", ""},
		{"run twice by -count", run + pass + run + fail + bad, "failed", "TestA:passed TestA #2:failed", "TestA failed"},
		{"unknown actions and fields", `{"Action":"artifacts","Package":"p","Path":"x"}` + "\n" + `{"Action":"attr","Package":"p","Test":"TestA","Key":"k","Value":"v"}` + "\n" + run + pass + word + good, "passed", "TestA:passed", ""},
		{"a status line behind other text", run + `{"Action":"output","Package":"p","Test":"TestA","Output":"level low--- FAIL: TestA (0.25s)\n"}` + "\n" + good, "failed", "TestA:failed", "TestA failed"},
		{"a failed benchmark", `{"Action":"run","Package":"p","Test":"BenchmarkA"}` + "\n" + `{"Action":"fail","Package":"p","Test":"BenchmarkA"}` + "\n" + bad, "failed", "", "BenchmarkA failed"},
		{"a word after the end", run + pass + word + good + `{"Action":"output","Package":"p","Output":"bye\n"}` + "\n", "passed", "TestA:passed", ""},
		{"failed before Go 1.24 in the compiler", `{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}` + "\n" + bad, "failed", "", "build failed"},
		{"remembered", `{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}` + "\n" + good, "passed", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := readGo(t, test.in)
			if len(r.packages) != 1 {
				t.Fatalf("%d results: %+v", len(r.packages), r.packages)
			}
			p := r.packages[0]
			if string(p.Outcome) != test.outcome || r.states() != test.cases || !strings.Contains(p.Reason, test.reason) {
				t.Errorf("got %s %q, cases %q", p.Outcome, p.Reason, r.states())
			}
			if (p.Reason == "") != (p.Outcome == towpath.OutcomePassed) {
				t.Errorf("outcome %s has reason %q", p.Outcome, p.Reason)
			}
		})
	}
}

func TestGoOutputIsFreedOfJSONAndWhatIsNoneIsKept(t *testing.T) {
	t.Parallel()
	r := readGo(t, `{"ImportPath":"q [q.test]","Action":"build-output","Output":"q.go:1: undefined: x\n"}
{"ImportPath":"w","Action":"build-output","Output":"warning: old linker\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"half"}
SIGQUIT: quit
{"Action":"output","Package":"p","Test":"TestA","Output":" line\n"}
{"Action":"fail","Package":"q","FailedBuild":"q [q.test]"}
{"not":"an event"}
`)
	want := `[p]half[p]SIGQUIT: quit
[p] line
[q]q.go:1: undefined: x
[p]{"not":"an event"}
[]warning: old linker
`
	if got := r.output.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if r.sum.Raw != 2 || r.sum.FirstRaw != "SIGQUIT: quit" || r.sum.Packages != 2 {
		t.Errorf("got %+v", r.sum)
	}
}

func TestACrashFailsTheTestThatItsStackNamesAndLeavesTheOthersUnfinished(t *testing.T) {
	t.Parallel()
	r := readGo(t, `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"goroutine 9 [running]:\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"example.com/p.TestB.func1()\n"}
{"Action":"fail","Package":"p"}
`)
	if got, want := r.states(), "TestA:unfinished TestB:failed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := r.packages[0]; p.Panic != "panic: boom" || p.Failed != nil {
		t.Errorf("got %+v", p)
	}
}

func TestAGoMessageIsTheLineThatSaysWhy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ output, want string }{
		{"noise\n    a_test.go:3: low\\nwater\n", "a_test.go:3: low\\nwater"},
		{"    a_test.go:3: \n        \tError Trace:\t/x/a_test.go:3\n        \tError:      \tNot equal: 4\n", "a_test.go:3: Not equal: 4"},
		{"    a_test.go:3: first\npanic: boom [recovered]\n", "panic: boom [recovered]"},
		{"\n  only this\n", "only this"},
		{"\x1b[31m    a_test.go:3: red\x1b[0m\n", "a_test.go:3: red"},
		{"", "failed without a message"},
	} {
		var in strings.Builder
		in.WriteString(`{"Action":"run","Package":"p","Test":"TestA"}` + "\n")
		for line := range strings.Lines(test.output) {
			fmt.Fprintf(&in, `{"Action":"output","Package":"p","Test":"TestA","Output":%s}`+"\n", quoteJSON(line))
		}
		in.WriteString(`{"Action":"fail","Package":"p","Test":"TestA"}` + "\n")
		if got := readGo(t, in.String()).cases[0].Message; got != test.want {
			t.Errorf("of %q: got %q, want %q", test.output, got, test.want)
		}
	}
}

func TestALineWithoutAnEndStaysInBoundedMemoryAndIsHandedOn(t *testing.T) {
	t.Parallel()
	var got, most int
	g := report.NewGoTest(report.GoEvents{Output: func(_ string, p []byte) {
		got += len(p)
		most = max(most, len(p))
	}})
	piece := []byte(strings.Repeat("x", 32<<10))
	const pieces = 1 << 10
	for range pieces {
		if _, err := g.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	s := g.Close()
	if got != pieces*len(piece) || most > 2<<20 || s.Raw != 1 {
		t.Errorf("%d of %d bytes came, at most %d at once; %+v", got, pieces*len(piece), most, s)
	}
}
