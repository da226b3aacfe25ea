package agent_test

import (
	"testing"

	"github.com/towpath/towpath"
)

// BenchmarkAtoms runs atoms of a command that does nothing, one process each, in two slots.
func BenchmarkAtoms(b *testing.B) {
	s, id := start(b, nil)
	us := make([]towpath.OfferedUnit, b.N)
	for i := range us {
		us[i] = towpath.OfferedUnit{Unit: towpath.Unit{Atom: i}, Name: "x", Limit: guard}
	}
	job := &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"true"}}
	b.ResetTimer()
	if b.N > 1 {
		s.offer(id, towpath.Offer{Attempt: "a", Job: job, Units: us[:b.N/2]})
	}
	s.offer(id, towpath.Offer{Attempt: "b", Job: job, Units: us[b.N/2:]})
	if b.N > 1 {
		done(s, "a")
	}
	done(s, "b")
}
