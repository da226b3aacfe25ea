package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// reportFormat is the version of the document that WriteJSON writes. Fields may be added under the same version.
const reportFormat = 1

type jsonReport struct {
	Format          int                 `json:"format"`
	Build           towpath.BuildNumber `json:"build"`
	Project         string              `json:"project,omitempty"`
	Job             string              `json:"job"`
	State           towpath.BuildState  `json:"state"`
	Reason          string              `json:"reason,omitempty"`
	Started         time.Time           `json:"started,omitzero"`
	Finished        time.Time           `json:"finished,omitzero"`
	DurationSeconds float64             `json:"duration_seconds"`
	AtomCounts      towpath.Counts      `json:"atom_counts"`
	CaseCounts      towpath.Counts      `json:"case_counts"`
}

type jsonAtom struct {
	Name            string            `json:"name"`
	State           towpath.AtomState `json:"state"`
	Reason          string            `json:"reason,omitempty"`
	Agent           string            `json:"agent,omitempty"`
	Started         time.Time         `json:"started,omitzero"`
	DurationSeconds float64           `json:"duration_seconds"`
	Attempts        int               `json:"attempts"`
	CaseCounts      towpath.Counts    `json:"case_counts"`
	Cases           []jsonCase        `json:"cases"`
}

type jsonCase struct {
	Name            string            `json:"name"`
	Select          string            `json:"select,omitempty"`
	File            string            `json:"file,omitempty"`
	State           towpath.CaseState `json:"state"`
	DurationSeconds float64           `json:"duration_seconds"`
	Attempts        int               `json:"attempts"`
	Message         string            `json:"message,omitempty"`
	Detail          string            `json:"detail,omitempty"`
}

// WriteJSON writes m as one JSON document, as docs/report-json.md describes it: an atom a line, so that a large report is
// never held whole and two of them can be compared by lines.
func WriteJSON(w io.Writer, m Merged) error {
	b := bufio.NewWriter(w)
	if err := writeJSON(b, m); err != nil {
		return fmt.Errorf("write JSON report: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write JSON report: %w", err)
	}
	return nil
}

func writeJSON(b *bufio.Writer, m Merged) error {
	head := jsonReport{
		Format: reportFormat, Build: m.Build, Project: m.Project, Job: m.Job, State: m.State, Reason: m.Reason,
		Started: m.Started, Finished: m.Finished, AtomCounts: m.AtomCounts(), CaseCounts: m.CaseCounts(),
	}
	if !m.Started.IsZero() && m.Finished.After(m.Started) {
		head.DurationSeconds = m.Finished.Sub(m.Started).Seconds()
	}
	raw, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if _, err := b.WriteString(strings.TrimSuffix(string(raw), "}") + `,"atoms":[`); err != nil {
		return err
	}
	for i := range m.Atoms {
		raw, err := json.Marshal(m.Atoms[i].json())
		if err != nil {
			return err
		}
		before := ",\n"
		if i == 0 {
			before = "\n"
		}
		if _, err := b.WriteString(before); err != nil {
			return err
		}
		if _, err := b.Write(raw); err != nil {
			return err
		}
	}
	_, err = b.WriteString("\n]}\n")
	return err
}

func (a *MergedAtom) json() jsonAtom {
	j := jsonAtom{
		Name: a.Name, State: a.State, Reason: a.Reason, Agent: a.Agent, Started: a.Started,
		DurationSeconds: a.Duration.Seconds(), Attempts: a.Attempts, Cases: make([]jsonCase, 0, len(a.Cases)),
	}
	a.count(&j.CaseCounts)
	for i := range a.Cases {
		c := &a.Cases[i]
		j.Cases = append(j.Cases, jsonCase{
			Name: c.Name, Select: c.Select, File: c.File, State: c.State, DurationSeconds: c.Duration.Seconds(),
			Attempts: c.Attempts, Message: c.Message, Detail: c.Detail,
		})
	}
	return j
}
