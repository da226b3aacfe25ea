package cli

import (
	"encoding/json"
	"io"
	"time"

	"github.com/towpath/towpath"
)

// jsonLines prints one documented object a line: docs/json.md.
type jsonLines struct {
	enc   *json.Encoder
	cases bool
}

func newJSONLines(out io.Writer, cases bool) *jsonLines {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return &jsonLines{enc, cases}
}

func (j *jsonLines) wantsCases() bool { return j.cases }

type object map[string]any

func (j *jsonLines) print(o any) {
	_ = j.enc.Encode(o) // a reader that has gone does not stop the build
}

func (j *jsonLines) event(t *tracker, e towpath.NumberedEvent) {
	switch b := e.Event.Body.(type) {
	case towpath.BuildSubmitted:
		j.print(object{"type": "build_started", "build": t.build, "job": b.Job.Name, "time": e.Event.At})
	case towpath.AtomsListed:
		j.print(object{"type": "atoms_listed", "build": t.build, "total": len(b.Atoms)})
	case towpath.AtomStarted:
		if a, u := t.attempts[b.Attempt], t.atom(b.Atom); a != nil && u != nil {
			j.print(object{"type": "atom_started", "atom": u.name, "attempt": a.number, "agent": a.agent, "time": e.Event.At})
		}
	case towpath.AtomReported:
		if u := t.atom(b.Atom); u != nil {
			o := object{"type": "attempt", "atom": u.name, "outcome": b.Report.Outcome, "duration_s": b.Report.Duration.Seconds()}
			if a := t.attempts[b.Attempt]; a != nil {
				o["attempt"] = a.number
			}
			if b.Report.Reason != "" {
				o["reason"] = b.Report.Reason
			}
			j.print(o)
		}
	}
}

func (j *jsonLines) result(t *tracker, atom int, cases []towpath.CaseInfo) {
	a := t.atoms[atom]
	o := object{"type": "atom", "atom": a.name, "state": a.state, "duration_s": a.took.Seconds(), "attempts": a.attempts}
	if a.reason != "" {
		o["reason"] = a.reason
	}
	j.print(o)
	if !j.cases {
		return
	}
	for _, c := range cases {
		j.print(caseObject(c))
	}
}

func caseObject(c towpath.CaseInfo) object {
	o := object{"type": "case", "name": c.Name, "atom": c.Atom, "state": c.State, "duration_s": c.Duration.Seconds()}
	if c.File != "" {
		o["file"] = c.File
	}
	if c.Message != "" {
		o["message"] = c.Message
	}
	if c.Detail != "" {
		o["detail"] = c.Detail
	}
	return o
}

func (j *jsonLines) trouble(t *tracker, x trouble) {
	o := object{"type": "trouble", "build": t.build, "name": x.name, "state": x.state, "reason": x.reason}
	if x.output != "" {
		o["output"] = x.output
	}
	j.print(o)
}

func (j *jsonLines) tick(*tracker, time.Time) {}

func (j *jsonLines) finish(_ *tracker, b towpath.BuildInfo, _ time.Time) {
	j.print(buildObject("build_finished", b))
}

// buildObject is the object that ends a build's stream, and a line of ps.
func buildObject(kind string, b towpath.BuildInfo) object {
	o := object{
		"type": kind, "build": b.Number, "job": b.Job, "state": b.State, "reason": b.Reason,
		"atoms": object{
			"total": b.Atoms.Total, "passed": b.Atoms.Passed, "failed": b.Atoms.Failed, "flaky": b.Atoms.Flaky, "lost": b.Atoms.Lost,
			"skipped": b.Atoms.Skipped, "canceled": b.Atoms.Canceled, "quarantined": b.Atoms.Quarantined,
		},
		"cases": object{
			"total": b.Cases.Total, "passed": b.Cases.Passed, "failed": b.Cases.Failed, "skipped": b.Cases.Skipped,
			"flaky": b.Cases.Flaky, "quarantined": b.Cases.Quarantined, "unfinished": b.Cases.Unfinished,
		},
		"lower_bound_s": b.LowerBound.Seconds(), "started": b.Started,
	}
	if !b.Finished.IsZero() {
		o["duration_s"] = b.Finished.Sub(b.Started).Seconds()
		o["finished"] = b.Finished
	}
	if b.Floor != "" {
		o["floor"] = b.Floor
	}
	return o
}
