package runner

import (
	"context"
	"fmt"
	"io"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// tap is the runner of commands that print the Test Anything Protocol on standard output.
type tap struct{}

func (tap) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	r := &tapReading{outputReading: newOutputReading(s)}
	r.tap = report.NewTAP(func(c towpath.Case) { r.cases = append(r.cases, c) })
	return s.Base, r, nil
}

// tapReading reads the protocol. Several atoms in one command share one stream that does not tell them apart.
type tapReading struct {
	*outputReading
	tap   *report.TAP
	cases []towpath.Case
}

func (r *tapReading) Stdout() io.Writer { return io.MultiWriter(&r.out, r.tap) }
func (r *tapReading) Stderr() io.Writer { return &r.err }

func (r *tapReading) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	result := r.tap.Close()
	if len(r.spec.Units) > 1 {
		return r.closeSeveral(result, end), nil
	}
	one := r.byStatus(end)
	one.Cases = r.cases
	one.Counts = result.Counts
	switch {
	case end.Stopped != "":
	case result.Results == 0 && result.Planned < 0 && one.Outcome == towpath.OutcomePassed:
		one.Outcome, one.Reason = towpath.OutcomeFailed, "the command printed no TAP on standard output"
	case result.Outcome == towpath.OutcomeFailed:
		one.Outcome, one.Reason = towpath.OutcomeFailed, result.Reason
		if result.Counts.Failed > 0 && result.BailOut == "" && len(result.Problems) == 0 {
			one.Reason = caseReport(r.cases).Reason
		}
	case one.Outcome == towpath.OutcomePassed:
		one.Outcome, one.Reason = result.Outcome, result.Reason
	default:
		one.Reason += ", though no test failed"
	}
	return map[int]towpath.AtomReport{0: one}, nil
}

// closeSeveral can clear all units or none: whose a result is cannot be known.
func (r *tapReading) closeSeveral(result report.TAPResult, end Ended) map[int]towpath.AtomReport {
	reports := make(map[int]towpath.AtomReport, len(r.spec.Units))
	for i := range r.spec.Units {
		one := r.byStatus(end)
		if clean(one) {
			one.Outcome = towpath.OutcomeUnclear
			one.Reason = fmt.Sprintf("TAP does not say which of %d atoms a result belongs to: set batch: 1", len(r.spec.Units))
			if result.Outcome == towpath.OutcomeFailed {
				one.Reason = result.Reason
			}
		}
		reports[i] = one
	}
	return reports
}
