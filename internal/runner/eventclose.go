package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// Close reads the last events and judges each unit.
func (e *eventReading) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	err := e.log.close()
	reports := make(map[int]towpath.AtomReport, len(e.files))
	explained := e.others || len(e.loose) > 0
	open, begun := 0, 0
	for i := range e.files {
		f := &e.files[i]
		if f.began {
			begun++
		}
		if f.began && !f.ended {
			open++
		}
		if f.ended {
			reports[i] = e.judge(i)
			explained = explained || reports[i].Outcome == towpath.OutcomeFailed
		}
	}
	for i := range e.files {
		if !e.files[i].ended {
			reports[i] = e.unended(i, end, open, begun)
			explained = true
		}
	}
	e.charge(reports, end, explained)
	share(reports, end)
	for i, r := range reports {
		if r.Outcome != towpath.OutcomePassed && r.Outcome != towpath.OutcomeSkipped {
			r.ExitCode = end.ExitCode
			reports[i] = r
		}
	}
	return reports, err
}

// share spreads over the files what the command took besides them, as its start: it is a part of what they cost.
func share(reports map[int]towpath.AtomReport, end Ended) {
	spare := end.Wall
	for _, r := range reports {
		spare -= r.Duration
	}
	if spare <= 0 || len(reports) == 0 {
		return
	}
	for i, r := range reports {
		r.Duration += spare / time.Duration(len(reports))
		reports[i] = r
	}
}

// judge reports a file that ran to its end.
func (e *eventReading) judge(i int) towpath.AtomReport {
	f := &e.files[i]
	if f.left {
		// The result that Node then gives the file stands for tests of which nothing is known.
		f.results = slices.DeleteFunc(f.results, func(l logged) bool { return l.ID == "file" && l.State == "passed" })
		if names := e.unfinished(f); len(names) > 0 {
			f.fault = "process.exit(0) was called in the middle of " + quoteFirst(names)
		} else if len(f.results) == 0 {
			f.fault = "process.exit(0) was called before the results of the tests were told"
		}
	}
	cases, missing := e.cases(i)
	r := caseReport(cases)
	r.Duration = time.Duration(f.ms * float64(time.Millisecond))
	switch {
	case f.fault != "":
		r.Outcome, r.Reason, r.Failed = towpath.OutcomeFailed, f.fault, nil
	case f.unhandled != "":
		r.Outcome, r.Reason, r.Failed = towpath.OutcomeFailed, "unhandled error: "+f.unhandled, nil
	case missing != "":
		r.Outcome, r.Reason, r.Failed = towpath.OutcomeFailed, fmt.Sprintf("the case %q was to run again and did not run", missing), nil
	case r.Outcome != towpath.OutcomeFailed && f.state == "failed" && e.only[i] == nil:
		r.Outcome, r.Reason = towpath.OutcomeFailed, e.runner.name+" says that the file failed, and names no case"
	}
	return r
}

// unended reports a file that never came to its end.
func (e *eventReading) unended(i int, end Ended, open, begun int) towpath.AtomReport {
	f := &e.files[i]
	cases, _ := e.cases(i)
	r := caseReport(cases)
	r.Failed = nil
	if !f.began {
		r.Outcome, r.Reason = e.unbegun(i, end, begun)
		return r
	}
	at := ""
	if names := e.unfinished(f); len(names) > 0 {
		at = ", in the middle of " + quoteFirst(names)
	}
	switch {
	case end.Stopped != "":
		r.Outcome, r.Reason = end.Stopped, end.Reason+at
		if open > 1 && end.Stopped == towpath.OutcomeTimedOut {
			r.Outcome = towpath.OutcomeUnclear
		}
	case open > 1:
		r.Outcome, r.Reason = towpath.OutcomeUnclear, e.runner.name+" ended ("+end.Reason+") while several files ran"
	default:
		r.Outcome, r.Reason = towpath.OutcomeFailed, e.runner.name+" ended before the file did ("+end.Reason+")"+at
		if len(e.loose) > 0 {
			r.Reason += ": " + e.loose[0]
		}
	}
	r.Duration = 0
	return r
}

// unbegun says what is known of a file that the runner never began.
func (e *eventReading) unbegun(i int, end Ended, begun int) (towpath.Outcome, string) {
	name := e.spec.Units[i].Name
	if end.Stopped == towpath.OutcomeCanceled {
		return end.Stopped, end.Reason
	}
	if _, err := os.Stat(under(e.spec.Dir, name)); errors.Is(err, fs.ErrNotExist) {
		return towpath.OutcomeFailed, "did not run: there is no file " + name
	}
	if begun == 0 && e.missing(end) {
		return towpath.OutcomeFailed, e.runner.name + " is not installed here: " + e.runner.install
	}
	if len(e.files) > 1 && (begun > 0 || end.Stopped != "" || e.absent()) {
		return towpath.OutcomeUnclear, "had not begun when " + e.runner.name + " ended (" + end.Reason + ")"
	}
	if end.Stopped != "" {
		return end.Stopped, end.Reason
	}
	said := telling(plain(string(e.err.head)), plain(string(e.out.head)))
	if said != "" {
		said = ": " + said
	}
	return towpath.OutcomeFailed, "did not run: " + e.runner.name + " ended with " + end.Reason + " and no result of this file" + said
}

// telling is the line of the outputs that most probably says what went wrong.
func telling(outputs ...string) string {
	for _, said := range outputs {
		for line := range strings.Lines(said) {
			if trouble.MatchString(line) {
				return clip(strings.TrimSpace(line), 400)
			}
		}
	}
	for _, said := range outputs {
		if line := firstLine(said); line != "" {
			return line
		}
	}
	return ""
}

var trouble = regexp.MustCompile(`(?i)\b(\w*error|\w*exception|fatal|cannot|not found|no such)\b`)

// missing says whether the command failed because the runner is not there.
func (e *eventReading) missing(end Ended) bool {
	if end.ExitCode == 127 {
		return true
	}
	said := string(e.err.head) + string(e.out.head)
	for _, sign := range []string{"npx canceled", "could not determine executable to run", "bundler: command not found", "Could not open input file: vendor/bin"} {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}

// absent says whether a file that was asked for does not exist, which may have kept the others from running.
func (e *eventReading) absent() bool {
	for _, u := range e.spec.Units {
		if _, err := os.Stat(under(e.spec.Dir, u.Name)); errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// charge finds who is to blame for what went wrong outside of any file, and clears nobody who might be.
func (e *eventReading) charge(reports map[int]towpath.AtomReport, end Ended, explained bool) {
	var reason string
	outcome := towpath.OutcomeFailed
	switch {
	case len(e.loose) > 0:
		reason = "unhandled error: " + e.loose[0]
	case end.Stopped != "" && !e.anyOpen():
		outcome, reason = end.Stopped, end.Reason+", after all tests had ended"
	case end.Stopped != "":
		return
	case !e.over && (!explained || end.ExitCode == 0):
		reason = e.runner.name + " ended (" + end.Reason + ") before it had closed its run"
	case !explained && end.ExitCode != 0:
		reason = e.runner.name + " ended with " + end.Reason + " though no case failed"
	default:
		return
	}
	if len(e.spec.Units) > 1 && outcome != towpath.OutcomeCanceled {
		outcome = towpath.OutcomeUnclear
	}
	for i, r := range reports {
		if r.Outcome == towpath.OutcomePassed || r.Outcome == towpath.OutcomeSkipped {
			r.Outcome, r.Reason, r.Failed = outcome, reason, nil
			reports[i] = r
		}
	}
}

func (e *eventReading) anyOpen() bool {
	for i := range e.files {
		if !e.files[i].ended {
			return true
		}
	}
	return false
}

// unfinished names the cases of a file that began and brought no result.
func (e *eventReading) unfinished(f *fileLog) []string {
	var names []string
	for _, l := range without(f.running, f.results, f.dropped) {
		names = append(names, strings.Join(l.Path, e.runner.separator))
	}
	return names
}

// without returns what is in list and in none of the others, counting equal keys, and leaves out what contains others:
// suites, and tests that are known by their subtests.
func without(list []logged, others ...[]logged) []logged {
	counts := make(map[string]int)
	parents := make(map[string]bool)
	for _, other := range append(others, list) {
		for _, l := range other {
			for i := range l.Path {
				parents[strings.Join(l.Path[:i], "\x00")] = true
			}
		}
	}
	for _, other := range others {
		for _, l := range other {
			counts[l.key()]++
		}
	}
	var left []logged
	for _, l := range list {
		switch {
		case counts[l.key()] > 0:
			counts[l.key()]--
		case !parents[strings.Join(l.Path, "\x00")]:
			left = append(left, l)
		}
	}
	return left
}

// cases are the cases of unit i: results first, then what is known to exist and brought none. missing names a case that
// was selected and did not run.
func (e *eventReading) cases(i int) (cases []towpath.Case, missing string) {
	f := &e.files[i]
	all := append([]logged(nil), f.results...)
	for _, known := range [][]logged{f.known, f.running} {
		for _, l := range without(known, all, f.dropped) {
			l.State = string(towpath.CaseUnfinished)
			all = append(all, l)
		}
	}
	fulls := make(map[string]int, len(all))
	for _, l := range all {
		fulls[l.Full]++
	}
	only := e.only[i]
	names := make(map[string]int, len(all))
	ran := make(map[string]bool)
	for _, l := range all {
		name := strings.Join(l.Path, e.runner.separator)
		names[name]++
		if n := names[name]; n > 1 {
			name = fmt.Sprintf("#%d %s", n, name)
		}
		if only != nil && !only[l.Full] {
			continue
		}
		if l.State == "passed" || l.State == "failed" {
			ran[l.Full] = true
		}
		c := towpath.Case{
			Name: name, File: e.spec.Units[i].Name, State: caseState(l.State),
			Duration: time.Duration(l.MS * float64(time.Millisecond)),
			Message:  firstLine(plain(l.Message)), Detail: clip(plain(l.Detail), 16<<10),
		}
		if l.Full != "" && fulls[l.Full] == 1 {
			c.Select = l.Full
		}
		cases = append(cases, c)
	}
	if only != nil {
		for _, want := range e.spec.Units[i].Cases {
			if !ran[want] {
				return cases, want
			}
		}
	}
	return cases, ""
}

func caseState(s string) towpath.CaseState {
	switch s {
	case "passed":
		return towpath.CasePassed
	case "skipped":
		return towpath.CaseSkipped
	case string(towpath.CaseUnfinished):
		return towpath.CaseUnfinished
	}
	return towpath.CaseFailed
}

// caseReport is the report of an atom that is nothing but its cases.
func caseReport(cases []towpath.Case) towpath.AtomReport {
	r := towpath.AtomReport{Outcome: towpath.OutcomePassed, Cases: cases}
	selectable := true
	var first towpath.Case
	for _, c := range cases {
		r.Counts.Total++
		switch c.State {
		case towpath.CasePassed:
			r.Counts.Passed++
		case towpath.CaseSkipped:
			r.Counts.Skipped++
		case towpath.CaseUnfinished:
			r.Counts.Unfinished++
			selectable = false
		default:
			r.Counts.Failed++
			if r.Counts.Failed == 1 {
				first = c
			}
			r.Failed = append(r.Failed, c.Select)
			selectable = selectable && c.Select != ""
		}
	}
	if !selectable {
		r.Failed = nil
	}
	switch {
	case r.Counts.Failed > 0:
		r.Outcome, r.Reason = towpath.OutcomeFailed, first.Name
		if first.Message != "" {
			r.Reason += ": " + first.Message
		}
		if n := r.Counts.Failed - 1; n > 0 {
			r.Reason += fmt.Sprintf(" (and %d more)", n)
		}
	case r.Counts.Unfinished > 0:
		r.Outcome, r.Reason = towpath.OutcomeFailed, "cases that brought no result"
	case r.Counts.Total == 0:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, "it has no tests"
	case r.Counts.Skipped == r.Counts.Total:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, "all its cases are skipped"
	}
	return r
}

func quoteFirst(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("%q", names[0])
	}
	return fmt.Sprintf("%q and %d more", names[0], len(names)-1)
}

// plain removes the escape sequences with which runners colour their messages.
func plain(s string) string {
	if !strings.ContainsRune(s, '\x1b') {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexFunc(after, func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return b.String()
		}
		s = after[end+1:]
	}
}
