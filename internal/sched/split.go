package sched

import (
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// split divides the atoms that would alone decide how long the build takes. It runs once, right before the first atoms
// are offered, when it is known how many slots there are.
func (s *State) split(now time.Time, b *build) {
	if b.job.Report.Kind != towpath.ReportGoTest || b.width < 2 {
		return
	}
	share := b.remaining() / time.Duration(b.width)
	least := max(share, 4*s.classCost(classLocal)) // the parts share one compilation: what go test costs to start is not theirs
	for _, a := range b.atoms {
		e := &a.est
		if a.state.Final() || a.whole.queued == inNone || len(a.parts) > 0 || e.Mean <= least || e.NeverSplit || len(e.Tests) < 2 || len(a.cases) > 0 {
			continue
		}
		if parts := divide(e.Tests, int(min(int64(b.width), int64((e.Mean+least-1)/least)))); parts != nil {
			s.emit(now, b.number, towpath.AtomSplit{Atom: a.index, Parts: parts})
		}
	}
}

// divide makes n even parts of the known tests, longest first into the lightest. The last part is the rest: whatever
// the package holds beside the tests of the others, whether it was known or not.
func divide(tests []towpath.TestEstimate, n int) []towpath.Part {
	n = min(n, len(tests))
	if n < 2 {
		return nil
	}
	sorted := slices.Clone(tests)
	slices.SortFunc(sorted, func(x, y towpath.TestEstimate) int {
		if x.Mean != y.Mean {
			return int(min(max(y.Mean-x.Mean, -1), 1))
		}
		return strings.Compare(x.Name, y.Name)
	})
	parts := make([]towpath.Part, n)
	sums := make([]time.Duration, n)
	for _, t := range sorted {
		k := n - 1 // the rest also holds what is not known: it is filled last among equals
		for i := range sums[:n-1] {
			if sums[i] < sums[k] || sums[i] == sums[k] && k == n-1 {
				k = i
			}
		}
		sums[k] += max(t.Mean, time.Millisecond)
		if k < n-1 {
			parts[k].Run = append(parts[k].Run, t.Name)
		}
	}
	rest := &parts[n-1]
	rest.Rest = true
	for i := range parts {
		parts[i].Index, parts[i].Of = i, n
		slices.Sort(parts[i].Run)
		rest.Skip = append(rest.Skip, parts[i].Run...)
	}
	slices.Sort(rest.Skip)
	return parts
}

func (s *State) applySplit(b *build, e towpath.AtomSplit) error {
	a := b.atoms[e.Atom]
	mean := make(map[string]time.Duration, len(a.est.Tests))
	for _, t := range a.est.Tests {
		mean[t.Name] = max(0, t.Mean)
	}
	b.leave(&a.whole)
	left := a.est.Mean
	for _, p := range e.Parts {
		u := unit{}
		for _, name := range p.Run {
			u.mean += mean[name]
		}
		left -= u.mean
		if p.Rest {
			u.mean = max(0, left)
		}
		u.mean = max(u.mean, time.Millisecond)
		a.parts = append(a.parts, part{Part: p, unit: u})
	}
	for i := range a.parts {
		b.put(towpath.Unit{Atom: e.Atom, Part: i + 1})
	}
	s.dirty = true
	return nil
}
