package towpath_test

import (
	"testing"

	"github.com/towpath/towpath"
)

func TestEveryFinalStateHasOneColumn(t *testing.T) {
	t.Parallel()
	atoms := []towpath.AtomState{
		towpath.AtomPending, towpath.AtomRunning, towpath.AtomPassed, towpath.AtomFailed, towpath.AtomFlaky, towpath.AtomLost,
		towpath.AtomSkipped, towpath.AtomCanceled, towpath.AtomQuarantined,
	}
	var sum towpath.Counts
	for _, s := range atoms {
		var c towpath.Counts
		c.AddAtom(s)
		if (c.Finished() == 1) != s.Final() || c.Total != 0 {
			t.Errorf("an atom that is %s counts as %+v", s, c)
		}
		sum.Add(c)
	}
	if want := (towpath.Counts{Passed: 1, Failed: 1, Flaky: 1, Lost: 1, Skipped: 1, Canceled: 1, Quarantined: 1}); sum != want {
		t.Errorf("one atom of each state is %+v, want %+v", sum, want)
	}
	sum = towpath.Counts{}
	for _, s := range []towpath.CaseState{
		towpath.CasePassed, towpath.CaseFailed, towpath.CaseSkipped, towpath.CaseFlaky, towpath.CaseQuarantined, towpath.CaseUnfinished,
	} {
		var c towpath.Counts
		c.AddCase(s)
		sum.Add(c)
	}
	if want := (towpath.Counts{Total: 6, Passed: 1, Failed: 1, Flaky: 1, Skipped: 1, Quarantined: 1, Unfinished: 1}); sum != want {
		t.Errorf("one case of each state is %+v, want %+v", sum, want)
	}
}
