package runner

import (
	"context"
	"io"
	"time"

	"github.com/towpath/towpath"
)

// none is the runner of plain commands: the exit status is the only result.
type none struct{}

func (none) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	return s.Base, newOutputReading(s), nil
}

// outputReading passes output on, keeps its end for the reason, and judges by the exit status.
type outputReading struct {
	spec     Spec
	out, err tail // err: only of a command whose standard output alone means something
}

func newOutputReading(s Spec) *outputReading {
	pass := func(p []byte) { s.Events.Output(solo(s.Units), p) }
	if len(s.Units) == 1 {
		s.Events.Began(0)
	}
	return &outputReading{spec: s, out: tail{keep: 8 << 10, to: pass}, err: tail{keep: 8 << 10, to: pass}}
}

// Stdout and Stderr are one writer, so that what the command says keeps its order.
func (r *outputReading) Stdout() io.Writer { return &r.out }
func (r *outputReading) Stderr() io.Writer { return &r.out }

// said is the last line of the output, for reasons: errors first.
func (r *outputReading) said() string {
	return cmpText(lastLine(string(r.err.held)), lastLine(string(r.out.held)))
}

func (r *outputReading) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	reports := make(map[int]towpath.AtomReport, len(r.spec.Units))
	for i := range r.spec.Units {
		reports[i] = r.byStatus(end)
	}
	return reports, nil
}

// byStatus is what the exit status alone says of each unit. Of several units nobody knows which one it was, and each that
// passed is taken to have needed its share of the time: without any they would never be spread evenly.
func (r *outputReading) byStatus(end Ended) towpath.AtomReport {
	report := towpath.AtomReport{Outcome: towpath.OutcomePassed, ExitCode: end.ExitCode}
	alone := len(r.spec.Units) == 1
	if alone {
		report.Duration = end.Wall
	}
	switch {
	case end.Stopped == towpath.OutcomeCanceled:
		report.Outcome, report.Reason = end.Stopped, end.Reason
	case end.Stopped == "" && end.ExitCode == 0 && end.Signal == "":
		report.Duration = end.Wall / time.Duration(max(1, len(r.spec.Units)))
	case !alone:
		report.Outcome, report.Reason = towpath.OutcomeUnclear, because(end, r.said())
	case end.Stopped != "":
		report.Outcome, report.Reason = end.Stopped, end.Reason
	default:
		report.Outcome, report.Reason = towpath.OutcomeFailed, because(end, r.said())
	}
	return report
}
