package report

import (
	"time"

	"github.com/towpath/towpath"
)

// Merged is the whole result of a build, as the report files tell it. docs/report-json.md documents its JSON.
type Merged struct {
	Build    towpath.BuildNumber
	Project  string
	Job      string
	State    towpath.BuildState
	Reason   string
	Started  time.Time
	Finished time.Time
	Atoms    []MergedAtom
}

// MergedAtom is one atom with its cases.
type MergedAtom struct {
	Name     string
	State    towpath.AtomState
	Reason   string
	Started  time.Time
	Duration time.Duration
	Attempts int
	Agent    string
	Cases    []MergedCase
}

// MergedCase is what finally stands for one case.
type MergedCase struct {
	towpath.Case
	Attempts int
}

// Merge joins what the API says of a build. Cases find their atoms by name; those of an atom that is not in atoms make
// one without a state.
func Merge(b towpath.BuildInfo, atoms []towpath.AtomInfo, cases []towpath.CaseInfo) Merged {
	m := Merged{
		Build: b.Number, Project: b.Project, Job: b.Job, State: b.State, Reason: b.Reason,
		Started: b.Started, Finished: b.Finished, Atoms: make([]MergedAtom, 0, len(atoms)),
	}
	byName := make(map[string]int, len(atoms))
	for _, a := range atoms {
		byName[a.Name] = len(m.Atoms)
		m.Atoms = append(m.Atoms, MergedAtom{
			Name: a.Name, State: a.State, Reason: a.Reason, Started: a.Started, Duration: a.Duration,
			Attempts: len(a.Attempts), Agent: a.Agent,
		})
	}
	for _, c := range cases {
		i, ok := byName[c.Atom]
		if !ok {
			i = len(m.Atoms)
			byName[c.Atom] = i
			m.Atoms = append(m.Atoms, MergedAtom{Name: c.Atom})
		}
		m.Atoms[i].Cases = append(m.Atoms[i].Cases, MergedCase{Case: c.Case, Attempts: c.Attempts})
	}
	return m
}

// AtomCounts counts the atoms by their states. One without a final state counts in the total only.
func (m Merged) AtomCounts() towpath.Counts {
	var c towpath.Counts
	for i := range m.Atoms {
		c.Total++
		c.AddAtom(m.Atoms[i].State)
	}
	return c
}

// CaseCounts counts the cases by their states.
func (m Merged) CaseCounts() towpath.Counts {
	var c towpath.Counts
	for i := range m.Atoms {
		m.Atoms[i].count(&c)
	}
	return c
}

func (a *MergedAtom) count(c *towpath.Counts) {
	for i := range a.Cases {
		c.AddCase(a.Cases[i].State)
	}
}
