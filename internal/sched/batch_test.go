package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

func TestDivideMakesEvenPartsThatAreCompleteTogether(t *testing.T) {
	t.Parallel()
	var tests []towpath.TestEstimate
	for i := range 17 {
		tests = append(tests, towpath.TestEstimate{Name: fmt.Sprintf("Test%02d", i), Mean: time.Duration(1+i*i) * time.Second})
	}
	for n := 2; n <= 17; n++ {
		parts := divide(tests, n)
		if len(parts) != n {
			t.Fatalf("%d parts, want %d", len(parts), n)
		}
		var run []string
		for i, p := range parts[:n-1] {
			if p.Rest || len(p.Run) == 0 || p.Index != i || p.Of != n {
				t.Errorf("part %d of %d is %+v", i, n, p)
			}
			run = append(run, p.Run...)
		}
		slices.Sort(run)
		rest := parts[n-1]
		if !rest.Rest || len(rest.Run) > 0 || !slices.Equal(run, rest.Skip) {
			t.Errorf("the rest of %d skips %v, the others run %v", n, rest.Skip, run)
		}
		if len(slices.Compact(run)) != len(rest.Skip) {
			t.Errorf("a test is in two of %d parts", n)
		}
	}
	if divide(tests[:1], 4) != nil {
		t.Error("a single test was divided")
	}
}

func TestHangLimitIsLearned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  time.Duration
		est  towpath.Estimate
		want time.Duration
	}{
		{time.Minute, towpath.Estimate{Mean: time.Hour, Passes: 9}, time.Minute},
		{0, towpath.Estimate{}, 10 * time.Minute},
		{0, towpath.Estimate{Mean: time.Second, Passes: 4}, 10 * time.Minute},
		{0, towpath.Estimate{Mean: time.Second, Dev: 100 * time.Millisecond, Passes: 5}, time.Minute},
		{0, towpath.Estimate{Mean: 30 * time.Second, Dev: 5 * time.Second, Passes: 5}, 500 * time.Second},
	} {
		b := &build{job: &towpath.Job{Timeouts: towpath.Timeouts{Atom: c.set}}, atoms: []*atom{{est: c.est}}}
		if got := b.limitOf(towpath.Unit{}); got != c.want {
			t.Errorf("limit of %+v with %v set: %v, want %v", c.est, c.set, got, c.want)
		}
	}
}

func TestUnknownAtomsTakeWhatTheirSiblingsTake(t *testing.T) {
	t.Parallel()
	atoms := []towpath.ListedAtom{{Name: "new"}}
	if got := usual(atoms); got != 0 {
		t.Errorf("nothing is known and %v is usual", got)
	}
	for i := range 8 {
		atoms = append(atoms, towpath.ListedAtom{Estimate: towpath.Estimate{Mean: time.Duration(i+1) * time.Second}})
	}
	if got := usual(atoms); got != 7*time.Second {
		t.Errorf("usual is %v, want the 75th percentile, 7s", got)
	}
	b := &build{newSum: 6 * time.Second, newCount: 3}
	if got := b.unknown(); got != 2*time.Second {
		t.Errorf("without known siblings %v is expected, want the mean of what was seen in this build, 2s", got)
	}
	if got := (&build{}).unknown(); got != time.Second {
		t.Errorf("with nothing to go by %v is expected, want 1s", got)
	}
}

func TestNoLimitIsLearnedFromSharesOfACommand(t *testing.T) {
	t.Parallel()
	none := towpath.Report{Kind: towpath.ReportNone}
	for name, c := range map[string]struct {
		job  towpath.Job
		want time.Duration
	}{
		"one command for several": {towpath.Job{Report: none}, 10 * time.Minute},
		"a limit is set":          {towpath.Job{Report: none, Timeouts: towpath.Timeouts{Atom: time.Hour}}, time.Hour},
		"one command an atom":     {towpath.Job{Report: none, Batch: towpath.Batch{Count: 1}}, 100 * time.Second},
		"started for each":        {towpath.Job{Report: none, PerAtom: true}, 100 * time.Second},
		"the runner says":         {towpath.Job{Report: towpath.Report{Kind: towpath.ReportGoTest}}, 100 * time.Second},
	} {
		b := &build{job: &c.job, atoms: []*atom{{name: "a", est: towpath.Estimate{Mean: 10 * time.Second, Passes: 9}, took: 10 * time.Second, longest: 10 * time.Second}}}
		if got := b.limitOf(towpath.Unit{}); got != c.want {
			t.Errorf("%s: the limit is %v, want %v", name, got, c.want)
		}
		b.begun = time.Unix(0, 0)
		if _, floor := b.bound(time.Unix(60, 0)); (floor == "") != b.shares() {
			t.Errorf("%s: the floor is %q", name, floor)
		}
	}
}

func TestDeadlinesComeInOrderAndMoveWithTheirObject(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var h dueHeap
	x, y := &session{lease: at(5)}, &session{lease: at(3)}
	h.push(due{at: at(5), kind: dueLease, seq: 1, sess: x})
	h.push(due{at: at(3), kind: dueLease, seq: 2, sess: y})
	y.lease = at(9)
	if got, ok := h.next(); !ok || !got.Equal(at(5)) {
		t.Errorf("next is %v, want that of the session which was not heard again", got)
	}
	x.over = true
	if _, ok := h.pop(at(8)); ok {
		t.Error("a deadline fell due whose object has ended or moved on")
	}
	if d, ok := h.pop(at(9)); !ok || d.sess != y {
		t.Error("the moved deadline did not fall due")
	}
	if _, ok := h.next(); ok {
		t.Error("a deadline is left")
	}
	// A long deadline of something that ended must not stay in memory.
	for i := range 100_000 {
		a := &attempt{over: i%100 != 0, startBy: at(1000 + i)}
		h.push(due{at: at(1000 + i), kind: dueAttempt, seq: uint64(i), attempt: a})
	}
	h.clean()
	if len(h.q) != 1000 {
		t.Errorf("%d deadlines are kept, want the 1000 that hold", len(h.q))
	}
	for i := 1; i < len(h.q); i++ {
		if h.q[i].before(&h.q[(i-1)/2]) {
			t.Fatal("the heap is out of order after a clean-up")
		}
	}
}
