package report_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func readTAP(t *testing.T, in string) ([]towpath.Case, report.TAPResult) {
	t.Helper()
	var cases []towpath.Case
	r := report.NewTAP(func(c towpath.Case) { cases = append(cases, c) })
	feed(t, r, []byte(in), 13)
	return cases, r.Close()
}

func TestTAPReadsResultsAsTheProtocolSays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, outcome, cases, reason string }{
		{"plan before", "1..2\nok 1 - a\nok 2 b\n", "passed", "a:passed b:passed", ""},
		{"plan after", "ok\nnot ok\n1..2\n", "failed", "test 1:passed test 2:failed", "1 of 2 failed"},
		{"Windows line ends", "1..1\r\nok 1 - a\r\n", "passed", "a:passed", ""},
		{"no line end at the end", "1..1\nok 1 - a", "passed", "a:passed", ""},
		{"plan short", "1..4\nok 1 - a\nok 3 - c\n", "failed", "a:passed c:passed test 2:unfinished test 4:unfinished", "planned 4 tests, 2 reported"},
		{"plan exceeded", "1..1\nok 1 - a\nok 2 - b\n", "failed", "a:passed b:passed", "planned 1 tests, 2 reported"},
		{"no plan", "ok 1 - a\n", "failed", "a:passed", "no plan"},
		{"a number twice", "1..3\nok 1\nok 2\nok 2\n", "failed", "test 1:passed test 2:passed test 2 #2:passed test 3:unfinished", "test 2 came twice"},
		{"bail out", "1..3\nok 1 - a\nBail out! no water\n", "failed", "a:passed test 2:unfinished test 3:unfinished", "bailed out: no water"},
		{"all skipped by the plan", "1..0 # Skipped: no winter\n", "skipped", "", "Skipped: no winter"},
		{"each skipped", "1..1\nok 1 # SKIP\n", "skipped", "test 1:skipped", "nothing in it ran"},
		{"nothing", "", "failed", "", "no TAP"},
		{"other text", "hello\nokay\nnot okay 3\n 1..2\n1..x\n", "failed", "", "no TAP"},
		{"equal names", "1..2\nok 1 - a\nok 2 - a\n", "passed", "a:passed a #2:passed", ""},
		{"todo that passes", "1..1\nok 1 - a # TODO soon\n", "skipped", "a:skipped", "nothing in it ran"},
		{"escaped hash and backslash", "1..2\nok 1 - a \\# SKIP\nok 2 - b\\\\ # SKIP x\n", "passed", "a # SKIP:passed b\\:skipped", ""},
		{"a number that is a word", "1..1\nok 5th gate\n", "passed", "5th gate:passed", ""},
		{"pragma and version", "TAP version 14\npragma +strict\n1..1\nok 1 - a\n", "passed", "a:passed", ""},
		{"subtest", "# Subtest: lock\n    1..2\n    ok 1 - a\n    not ok 2 - b\nnot ok 1 - lock\n1..1\n", "failed", "lock > a:passed lock > b:failed lock:failed", "2 of 3 failed"},
		{"subtest named on its own level", "    # Subtest: lock\n    ok 1 - a\n    1..1\nok 1 - lock\n1..1\n", "passed", "lock > a:passed lock:passed", ""},
		{"bare subtest", "    ok 1 - a\n    1..1\nok 1 - lock\n1..1\n", "passed", "lock > a:passed lock:passed", ""},
		{"indented text that looks like results", "    ok 1 - a\n    not ok 2 - b\nok 1 - lock\n1..1\n", "passed", "lock:passed", ""},
		{"subtest with a short plan", "# Subtest: lock\n    1..2\n    ok 1 - a\nok 1 - lock\n1..1\n", "failed", "lock > a:passed lock > test 2:unfinished lock:passed", "in lock: planned 2 tests, 1 reported"},
		{"killed within a subtest", "1..1\n# Subtest: lock\n    1..2\n    ok 1 - a\n", "failed", "lock > a:passed lock > test 2:unfinished test 1:unfinished", "planned"},
		{"suite", "# Subtest: lock\n    ok 1 - a\n    1..1\nok 1 - lock\n  ---\n  duration_ms: 2\n  type: 'suite'\n  ...\n1..1\n", "passed", "lock > a:passed", ""},
		{"suite that failed by itself", "# Subtest: lock\n    ok 1 - a\n    1..1\nnot ok 1 - lock\n  ---\n  type: 'suite'\n  error: 'no rope'\n  ...\n1..1\n", "failed", "lock > a:passed lock:failed", "1 of 2 failed"},
		{"results quoted in diagnostics", "1..1\nok 1 - a\n  ---\n  out: |\n    ok 2\n    not ok 3\n  ...\n", "passed", "a:passed", ""},
		{"diagnostics without an end", "1..2\nnot ok 1 - a\n  ---\n  message: 'x'\nok 2 - b\n", "failed", "a:failed b:passed", "1 of 2 failed"},
		{"two documents by version", "TAP version 13\n1..1\nok 1 - a\nTAP version 13\n1..2\nok 1 - a\n", "failed", "a:passed a #2:passed test 2:unfinished", "planned 2 tests, 1 reported"},
		{"two documents by plan", "1..1\nok 1 - a\n1..1\nok 1 - b\n", "passed", "a:passed b:passed", ""},
		{"two documents by number", "ok 1 - a\n1..1\nok 1 - b\n1..1\n", "passed", "a:passed b:passed", ""},
		{"a result after the plan that ended it", "ok 1 - a\n1..1\nok 2 - b\n", "failed", "a:passed b:passed", "comes after the plan"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cases, res := readTAP(t, test.in)
			var got []string
			for _, c := range cases {
				got = append(got, fmt.Sprintf("%s:%s", c.Name, c.State))
			}
			if string(res.Outcome) != test.outcome || strings.Join(got, " ") != test.cases || !strings.Contains(res.Reason, test.reason) {
				t.Errorf("got %s %q, cases %q", res.Outcome, res.Reason, strings.Join(got, " "))
			}
			if (res.Reason == "") != (res.Outcome == towpath.OutcomePassed) {
				t.Errorf("outcome %s has reason %q", res.Outcome, res.Reason)
			}
		})
	}
}

func TestATAPPlanOfManyMillionsNamesOnlyTheFirstThatAreMissing(t *testing.T) {
	t.Parallel()
	cases, res := readTAP(t, "1..1000000000\nok 1\n")
	if len(cases) != 1002 || res.Counts.Unfinished != 1001 {
		t.Fatalf("got %d cases, %+v", len(cases), res.Counts)
	}
	if last := cases[len(cases)-1].Name; last != "tests 1002 to 1000000000 (999998999 of them)" {
		t.Errorf("the last is %q", last)
	}
}

func TestTAPGivesACaseBeforeTheOutputEnds(t *testing.T) {
	t.Parallel()
	var cases []towpath.Case
	r := report.NewTAP(func(c towpath.Case) { cases = append(cases, c) })
	feed(t, r, []byte("# Subtest: lock\n    ok 1 - a\n    ok 2 - b\n"), 5)
	if len(cases) != 1 || cases[0].Name != "lock > a" {
		t.Errorf("got %+v", cases)
	}
}
