package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// Close judges every unit that was not told of while the command ran.
func (r *goReading) Close(ctx context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	open := r.openTests()
	summary := r.events.Close()
	for name, p := range r.seen {
		if p.unexplained() {
			r.explainBuild(name, p)
		}
	}
	reports := make(map[int]towpath.AtomReport, len(r.spec.Units))
	explained := end.ExitCode == 0 && end.Signal == "" || end.Stopped != "" || len(r.told) > 0
	for i := range r.spec.Units {
		if r.told[i] {
			continue
		}
		one := r.judge(i, r.unrun(ctx, i, end), end)
		if r.part != nil {
			one = judgePart(r.part, one, r.of(r.packages[0][0]).began)
		}
		explained = explained || !clean(one)
		if at := open[i]; len(at) > 0 && end.Stopped != "" && !clean(one) {
			one.Reason += ", in the middle of " + quoteFirst(at)
		}
		reports[i] = one
	}
	reason := ""
	switch {
	case summary.Torn > 0:
		reason = "the output of go test -json is broken: " + clip(summary.FirstRaw, 200)
	case len(r.stray) > 0:
		reason = "the command also ran " + r.stray[0] + ", which failed and is no atom of this batch"
	case !explained:
		reason = because(end, cmpText(lastLine(string(r.stderr.held)), summary.FirstRaw)) + ", though no test failed"
	}
	if reason == "" {
		return reports, nil
	}
	for i, one := range reports {
		if clean(one) {
			one.Outcome, one.Reason, one.ExitCode = towpath.OutcomeFailed, reason, end.ExitCode
			if len(r.spec.Units) > 1 {
				one.Outcome = towpath.OutcomeUnclear
			}
			reports[i] = one
		}
	}
	return reports, nil
}

// clean says whether a report speaks of no fault.
func clean(r towpath.AtomReport) bool {
	return r.Outcome == towpath.OutcomePassed || r.Outcome == towpath.OutcomeSkipped
}

// openTests are the tests that run as the command ends, by unit.
func (r *goReading) openTests() map[int][]string {
	open := make(map[int][]string)
	for name, p := range r.seen {
		for _, i := range r.units[name] {
			if !p.closed {
				open[i] = append(open[i], p.open()...)
			}
		}
	}
	return open
}

// judge is the report of one unit. unrun are tests that exist in its packages and never began.
func (r *goReading) judge(unit int, unrun map[string][]string, end Ended) towpath.AtomReport {
	one := towpath.AtomReport{Outcome: towpath.OutcomePassed, Cached: true}
	several := len(r.packages[unit]) > 1
	skipped, failed := 0, 0
	selectable := true
	var reasons []string
	ran := make(map[string]bool)
	for _, name := range r.packages[unit] {
		p := r.seen[name]
		outcome, reason := r.outcome(name, end)
		switch outcome {
		case towpath.OutcomePassed:
		case towpath.OutcomeSkipped:
			skipped++
		case towpath.OutcomeFailed:
			failed++
		default: // the rank decides
		}
		if rank(outcome) > rank(one.Outcome) {
			one.Outcome = outcome
			reasons = slices.Insert(reasons, 0, reason)
		} else if reason != "" {
			reasons = append(reasons, reason)
		}
		if p == nil {
			one.Cached, selectable = false, false
			continue
		}
		one.Duration += p.result.Elapsed
		one.Cached = one.Cached && p.result.Cached
		if outcome == towpath.OutcomeFailed {
			selectable = selectable && len(p.result.Failed) > 0 && !p.cut() && p.result.Ended
			one.Failed = append(one.Failed, p.result.Failed...)
		}
		cases := slices.Clone(p.cases)
		for _, test := range unrun[name] {
			cases = append(cases, towpath.Case{
				Name: test, Select: test, State: towpath.CaseUnfinished,
				Message: "never ran: the test binary ended before its turn",
			})
		}
		for _, c := range cases {
			ran[c.Select] = ran[c.Select] || p.ended[c.Select]
			if several {
				c.Name = name + "." + c.Name
			}
			one.Cases = append(one.Cases, c)
		}
	}
	one.Counts = report.CountCases(one.Cases)
	if !selectable {
		one.Failed = nil
	}
	if one.Outcome == towpath.OutcomePassed && skipped == len(r.packages[unit]) {
		one.Outcome = towpath.OutcomeSkipped
	}
	if missing := r.missing(unit, ran); missing != "" && clean(one) {
		one.Outcome, one.Failed = towpath.OutcomeFailed, nil
		reasons = []string{fmt.Sprintf("the rerun selected %s, and no such test ran", missing)}
	}
	if one.Outcome != towpath.OutcomePassed && len(reasons) > 0 {
		one.Reason = clip(reasons[0], 500)
		if several && failed > 1 {
			one.Reason += fmt.Sprintf(" (%d packages failed)", failed)
		}
	}
	if one.Outcome == towpath.OutcomeFailed {
		one.ExitCode = 1
		if end.ExitCode != 0 {
			one.ExitCode = end.ExitCode
		}
	}
	if one.Duration == 0 && len(r.spec.Units) == 1 {
		one.Duration = end.Wall
	}
	return one
}

// missing is a case that was selected and did not run, or "".
func (r *goReading) missing(unit int, ran map[string]bool) string {
	if !r.selected {
		return ""
	}
	for _, c := range r.spec.Units[unit].Cases {
		if !ran[c] {
			return c
		}
	}
	return ""
}

// outcome is what one package came to, and why if it did not pass.
func (r *goReading) outcome(name string, end Ended) (towpath.Outcome, string) {
	p := r.seen[name]
	if p != nil && p.closed && p.result.Ended {
		if p.result.Outcome == towpath.OutcomePassed && len(p.cases) == 0 {
			return towpath.OutcomeSkipped, "no tests to run"
		}
		return p.result.Outcome, p.explained()
	}
	alone := len(r.spec.Units) == 1
	said := lastLine(string(r.stderr.held))
	switch {
	case end.Stopped == towpath.OutcomeCanceled:
		return end.Stopped, end.Reason
	case end.Stopped != "" && (alone || p != nil && r.broken() == 1):
		return end.Stopped, end.Reason
	case end.Stopped != "":
		return towpath.OutcomeUnclear, end.Reason
	case end.ExitCode == 0 && end.Signal == "":
		return towpath.OutcomeFailed, "go test ended with exit status 0 and no result of " + name + ": run must print go test -json"
	case alone && p != nil && p.result.Counts.Failed > 0:
		return towpath.OutcomeFailed, p.explained() + " (" + because(end, "") + ")"
	case alone:
		return towpath.OutcomeFailed, "no result of the package: " + because(end, said)
	}
	return towpath.OutcomeUnclear, "no result of the package when go test ended: " + because(end, said)
}

// explained is the package's reason with the words of the first failed test, if it does not have them yet.
func (p *goPackage) explained() string {
	reason := p.result.Reason
	for _, c := range slices.Backward(p.cases) { // subtests end before the tests around them
		if c.State == towpath.CaseFailed && c.Message != "" && strings.HasPrefix(reason, c.Name+" failed") && !strings.Contains(reason, c.Message) {
			reason += ": " + c.Message
			if last := lastLine(c.Detail); p.cut() && (strings.HasPrefix(last, "signal: ") || strings.HasPrefix(last, "exit status ")) {
				reason += " (" + last + ")"
			}
			return reason
		}
	}
	return reason
}

// broken counts the packages that began and brought no result.
func (r *goReading) broken() int {
	n := 0
	for _, p := range r.seen {
		if !p.closed || !p.result.Ended {
			n++
		}
	}
	return n
}

// unrun lists the tests of a unit's packages that exist, were to run and never began, for packages that ended in their
// middle.
func (r *goReading) unrun(ctx context.Context, unit int, end Ended) map[string][]string {
	if end.Stopped != "" || r.part != nil || r.command.narrowed() || r.spec.Exec == nil {
		return nil
	}
	unrun := make(map[string][]string)
	for _, name := range r.packages[unit] {
		p := r.seen[name]
		if p == nil || !p.cut() {
			continue
		}
		c := Command{Dir: r.spec.Base.Dir, Env: slices.Concat(r.spec.Base.Env, r.command.env)}
		c.Argv = slices.Concat([]string{"go", "test", "-list", "."}, r.command.listFlags(), []string{name})
		out, _, exit, err := r.spec.Exec(ctx, c, goListLimit)
		if err != nil || exit != 0 {
			r.spec.Events.Output(unit, []byte("towpath: the tests that never ran cannot be named: go test -list failed\n"))
			continue
		}
		for line := range strings.Lines(string(out)) {
			test := strings.TrimSpace(line)
			if !slices.Contains(p.began, test) && isGoTest(test) && r.wanted(unit, test) {
				unrun[name] = append(unrun[name], test)
			}
		}
	}
	return unrun
}

// wanted says whether a top-level test was to run: all of them, or those that the unit's cases are or lie below.
func (r *goReading) wanted(unit int, test string) bool {
	return !r.selected || slices.ContainsFunc(r.spec.Units[unit].Cases, func(c string) bool {
		top, _, _ := strings.Cut(c, "/")
		return top == test
	})
}

// isGoTest tells a name in a list from a benchmark's and from the summary line.
func isGoTest(name string) bool {
	if strings.ContainsAny(name, " \t") {
		return false
	}
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz")
}

// rank orders outcomes of packages by how much they say of the unit that holds them.
func rank(o towpath.Outcome) int {
	return slices.Index([]towpath.Outcome{
		towpath.OutcomeSkipped, towpath.OutcomePassed, towpath.OutcomeUnclear, towpath.OutcomeCanceled, towpath.OutcomeTimedOut, towpath.OutcomeFailed,
	}, o)
}
