package report_test

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// repeated reads head, then piece n times, then tail.
type repeated struct {
	head, piece, tail string
	n                 int
	now               string
	state             int
}

func (r *repeated) Read(p []byte) (int, error) {
	for r.now == "" {
		switch {
		case r.state == 0:
			r.now, r.state = r.head, 1
		case r.state == 1 && r.n > 0:
			r.now = r.piece
			r.n--
		case r.state == 1:
			r.now, r.state = r.tail, 2
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, r.now)
	r.now = r.now[n:]
	return n, nil
}

// reading lets a reader read in and returns how many cases it found.
type reading func(t *testing.T, in io.Reader) int

func asGoTest(t *testing.T, in io.Reader) int {
	t.Helper()
	n := 0
	g := report.NewGoTest(report.GoEvents{Case: func(string, towpath.Case) { n++ }})
	if _, err := io.Copy(struct{ io.Writer }{g}, in); err != nil {
		t.Fatal(err)
	}
	g.Close()
	return n
}

func asTAP(t *testing.T, in io.Reader) int {
	t.Helper()
	n := 0
	r := report.NewTAP(func(towpath.Case) { n++ })
	if _, err := io.Copy(struct{ io.Writer }{r}, in); err != nil {
		t.Fatal(err)
	}
	r.Close()
	return n
}

func asJUnit(t *testing.T, in io.Reader) int {
	t.Helper()
	n := 0
	var j report.JUnit
	_ = j.Read(in, func(report.FileCase) error { n++; return nil }) // some of these are torn on purpose
	return n
}

// TestTwiceTheInputIsTwiceTheWork counts what is allocated, not seconds. It is not parallel, for the count is
// of the whole process.
func TestTwiceTheInputIsTwiceTheWork(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	const event = `{"Action":"output","Package":"p","Test":"TestA","Output":"` // and text"}
	for _, test := range []struct {
		name              string
		read              reading
		head, piece, tail string
		n                 int
	}{
		{"go: many tests", asGoTest, "", `{"Action":"run","Package":"p","Test":"TestA/x"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA/x"}` + "\n", "", 20000},
		{"go: much output of a test", asGoTest, `{"Action":"run","Package":"p","Test":"TestA"}` + "\n", event + strings.Repeat("x", 100) + `\n"}` + "\n", "", 20000},
		{"go: output in crumbs", asGoTest, `{"Action":"run","Package":"p"}` + "\n", `{"Action":"output","Package":"p","Output":"x"}` + "\n", "", 20000},
		{"go: a line without an end", asGoTest, "", strings.Repeat("{", 4096), "", 5000},
		{"go: status lines", asGoTest, "", event + strings.Repeat("--- FAIL: a (", 50) + `"}` + "\n", "", 5000},
		{"tap: results", asTAP, "", "not ok - a\n# why\n", "", 50000},
		{"tap: diagnostics without an end", asTAP, "not ok\n  ---\n", "  a: |\n    b\n", "", 100000},
		{"tap: comments", asTAP, "", "# x\n", "not ok\n", 200000},
		{"tap: a bare subtest", asTAP, "", "    ok - a\n", "    1..9\nok\n", 50000},
		{"tap: a line without an end", asTAP, "ok ", strings.Repeat("# ", 2048), "", 5000},
		{"tap: plans", asTAP, "", "1..2\n", "", 50000},
		{"junit: cases of one name", asJUnit, "<testsuite>", `<testcase name="a"><failure/></testcase>`, "</testsuite>", 50000},
		{"junit: deep suites", asJUnit, "", `<testsuite name="a"><testcase name="b"/>`, "", 20000},
		{"junit: ends that end nothing", asJUnit, strings.Repeat("<testsuite>", 10000), "</x>", "", 100000},
		{"junit: text", asJUnit, "<testcase><failure>", "x &amp; y &#27; < \n", "", 200000},
		{"junit: CDATA", asJUnit, "<testcase><failure><![CDATA[", "]]>]]]]><![CDATA[>", "", 100000},
		{"junit: one tag", asJUnit, "<testcase ", `a="b" `, "/>", 500000},
		{"junit: a tag of quotes", asJUnit, "<testcase " + strings.Repeat(" ", 1<<20), `"`, "/>", 1000000},
		{"junit: failures of one case", asJUnit, "<testcase>", "<failure>x</failure>", "</testcase>", 50000},
		{"junit: a comment", asJUnit, "<!--", "-- >", "--><testcase/>", 500000},
	} {
		work := func(n int) float64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			test.read(t, &repeated{head: test.head, piece: test.piece, tail: test.tail, n: n})
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc-before.TotalAlloc) + 1<<20
		}
		once, twice := work(test.n/4), work(test.n/2)
		if twice > 3*once {
			t.Errorf("%s: %.0f bytes allocated, %.0f for twice the input", test.name, once, twice)
		}
	}
}

func TestAFileOfAnySizeIsReadInLittleMemory(t *testing.T) { //nolint:paralleltest // measures the heap of the process
	const size = 16 << 20
	for _, test := range []struct {
		name              string
		read              reading
		head, piece, tail string
		cases             int
	}{
		{"junit: one text", asJUnit, "<testsuite><testcase name='a'><system-out>", strings.Repeat("x", 4095) + "\n", "</system-out></testcase></testsuite>", 1},
		{"junit: one CDATA", asJUnit, "<testsuite><testcase name='a'><failure><![CDATA[", strings.Repeat("]", 4096), "]]></failure></testcase></testsuite>", 1},
		{"junit: one attribute", asJUnit, "<testsuite><testcase name='a'><failure message='", strings.Repeat("x", 4096), "'/></testcase></testsuite>", 1},
		{"tap: one line", asTAP, "1..1\nok 1\n", strings.Repeat("x", 4096), "\n", 1},
		{"tap: other lines", asTAP, "1..1\nnot ok 1\n", strings.Repeat("x", 4095) + "\n", "", 1},
		{"go: one line", asGoTest, `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n", strings.Repeat("x", 4096), "\n", 1},
	} {
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		most := uint64(0)
		in := &repeated{head: test.head, piece: test.piece, tail: test.tail, n: size / 4096}
		got := test.read(t, watched{in, func() {
			if in.n%2048 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&during)
				most = max(most, during.HeapAlloc)
			}
		}})
		if got != test.cases {
			t.Errorf("%s: %d cases", test.name, got)
		}
		if most > before.HeapAlloc+8<<20 {
			t.Errorf("%s: %d KiB on the heap for %d", test.name, (most-before.HeapAlloc)>>10, size>>10)
		}
	}
}

// watched calls look at each read.
type watched struct {
	r    io.Reader
	look func()
}

func (w watched) Read(p []byte) (int, error) {
	w.look()
	return w.r.Read(p)
}
