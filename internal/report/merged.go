package report

import (
	"io"
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

// Merge joins what the API says of a build. Cases find their atoms by name; those of an atom that is not in atoms make one.
func Merge(b towpath.BuildInfo, atoms []towpath.AtomInfo, cases []towpath.CaseInfo) Merged {
	return Merged{}
}

// AtomCounts counts the atoms by their states; one without a final state counts in the total only.
func (m Merged) AtomCounts() towpath.Counts { return towpath.Counts{} }

// CaseCounts counts the cases by their states.
func (m Merged) CaseCounts() towpath.Counts { return towpath.Counts{} }

// WriteJUnit writes m as JUnit: a testsuite an atom. Whatever text a case holds, the file is valid XML 1.0 in UTF-8.
func WriteJUnit(w io.Writer, m Merged) error { return nil }

// WriteJSON writes m as one JSON document.
func WriteJSON(w io.Writer, m Merged) error { return nil }
