package runner

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// cargo runs cargo test, one package a command, and reads the text that Rust's test harness prints: its JSON form is not
// in stable toolchains. Cases are selected by --exact.
type cargo struct{}

// Begin adds, for a rerun, the names of the cases after the atom.
func (cargo) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	if len(s.Units) > 1 {
		return Command{}, nil, towpath.Errorf(towpath.CodeConfig,
			"job %s: cargo tests one package at a time and was to test %d: set batch: 1", s.Job.Name, len(s.Units))
	}
	r := &cargoReading{spec: s}
	c := s.Base
	if cases := s.Units[0].Cases; len(cases) > 0 {
		var err error
		if c, err = withArguments(s, towpath.ReportCargo, append([]string{"--", "--exact"}, cases...)...); err != nil {
			return Command{}, nil, err
		}
		r.only = true
	}
	r.out = &cargoLines{reading: r, line: r.result}
	r.err = &cargoLines{reading: r, line: r.note}
	return c, r, nil
}

// cargoReading follows one cargo test. What comes on one stream is kept apart from what comes on the other, since they
// come from two goroutines; Close puts them together.
type cargoReading struct {
	spec Spec
	only bool
	out  *cargoLines
	err  *cargoLines

	binaries []cargoBinary // by standard output
	failing  *cargoCase    // whose output is being printed

	targets []string // by standard error: what each binary is of
	faults  []string // lines of standard error that begin with error
}

type cargoBinary struct {
	announced int
	ended     bool
	cases     []*cargoCase
	open      string // began, and no result on its line yet
}

type cargoCase struct {
	name    string
	state   towpath.CaseState
	message string
	detail  strings.Builder
}

// cargoLines passes a stream on and cuts it into lines.
type cargoLines struct {
	reading *cargoReading
	line    func(string)
	rest    []byte
}

func (w *cargoLines) Write(p []byte) (int, error) {
	w.reading.spec.Events.Output(0, p)
	n := len(p)
	for {
		line, after, whole := bytes.Cut(p, []byte{'\n'})
		if !whole {
			if len(w.rest) < 64<<10 {
				w.rest = append(w.rest, line...)
			}
			return n, nil
		}
		w.line(plain(strings.TrimSuffix(string(append(w.rest, line...)), "\r")))
		w.rest = w.rest[:0]
		p = after
	}
}

// Stdout takes the command's standard output.
func (r *cargoReading) Stdout() io.Writer { return r.out }

// Stderr takes the command's standard error.
func (r *cargoReading) Stderr() io.Writer { return r.err }

var (
	cargoRunning = regexp.MustCompile(`^running (\d+) tests?$`)
	cargoResult  = regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored|bench:)(?:, (.*)|\s.*)?$`)
	cargoBegun   = regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. `)
	cargoTarget  = regexp.MustCompile(`^\s+(?:Running (?:unittests )?(\S+\.rs)(?: \(.*\))?|(Doc-tests) (.*))$`)
)

// result reads a line of standard output.
func (r *cargoReading) result(line string) {
	if m := cargoRunning.FindStringSubmatch(line); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits; one too many for an int is 0
		r.binaries = append(r.binaries, cargoBinary{announced: n})
		r.failing = nil
		return
	}
	if len(r.binaries) == 0 {
		return
	}
	b := &r.binaries[len(r.binaries)-1]
	if b.ended {
		return
	}
	if m := cargoResult.FindStringSubmatch(line); m != nil && len(b.cases) < b.announced {
		c := &cargoCase{name: m[1], state: towpath.CasePassed}
		switch m[2] {
		case "FAILED":
			c.state = towpath.CaseFailed
		case "ignored":
			c.state, c.message = towpath.CaseSkipped, m[3]
		}
		b.cases = append(b.cases, c)
		r.spec.Events.Began(0)
		return
	}
	switch {
	case strings.HasPrefix(line, "test result: "):
		b.ended = true
	case strings.HasPrefix(line, "---- ") && strings.HasSuffix(line, " stdout ----"):
		r.failing = b.find(strings.TrimSuffix(strings.TrimPrefix(line, "---- "), " stdout ----"))
	case line == "failures:":
		r.failing = nil
	case r.failing != nil:
		r.failing.take(line)
	}
}

func (b *cargoBinary) find(name string) *cargoCase {
	for _, c := range b.cases {
		if c.name == name && c.state == towpath.CaseFailed {
			return c
		}
	}
	return nil
}

// take adds a line to what a failed case printed. The message is the line after the one that says who panicked where.
func (c *cargoCase) take(line string) {
	if c.detail.Len() < 16<<10 {
		c.detail.WriteString(line)
		c.detail.WriteByte('\n')
	}
	switch said := strings.TrimSpace(line); {
	case strings.HasPrefix(said, "thread '") && strings.Contains(said, "panicked at"):
		c.message = ""
		if _, text, old := strings.Cut(said, "panicked at '"); old { // before Rust 1.73, on the same line
			c.message = text
		}
	case c.message == "" && said != "":
		c.message = said
	}
}

// note reads a line of standard error.
func (r *cargoReading) note(line string) {
	if m := cargoTarget.FindStringSubmatch(line); m != nil {
		r.targets = append(r.targets, m[1]+m[2])
		return
	}
	if strings.HasPrefix(line, "error") && len(r.faults) < 100 {
		r.faults = append(r.faults, line)
	}
	if strings.Contains(line, "process didn't exit successfully") || strings.HasPrefix(line, "  process didn't") {
		r.faults = append(r.faults, strings.TrimSpace(line))
	}
}

// Close judges the package.
func (r *cargoReading) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	for _, w := range []*cargoLines{r.out, r.err} {
		if len(w.rest) > 0 {
			w.line(plain(string(w.rest)))
		}
	}
	if n := len(r.binaries); n > 0 && !r.binaries[n-1].ended {
		if m := cargoBegun.FindStringSubmatch(plain(string(r.out.rest))); m != nil && !cargoResult.MatchString(plain(string(r.out.rest))) {
			r.binaries[n-1].open = m[1]
		}
	}
	cases, lost, ran := r.cases()
	rep := caseReport(cases)
	rep.Duration = end.Wall
	at := ""
	if lost != "" {
		at = ": " + lost
	}
	var missing string
	for _, want := range r.spec.Units[0].Cases {
		if r.only && !ran[want] {
			missing = want
			break
		}
	}
	switch {
	case end.Stopped != "":
		rep.Outcome, rep.Reason, rep.Failed = end.Stopped, end.Reason+at, nil
	case lost != "":
		rep.Outcome, rep.Reason, rep.Failed = towpath.OutcomeFailed, r.why(end)+at, nil
	case rep.Counts.Failed > 0:
	case end.ExitCode == 127 && len(r.binaries) == 0:
		rep.Outcome, rep.Reason = towpath.OutcomeFailed, "cargo is not installed here: install the Rust toolchain"
	case end.ExitCode != 0:
		rep.Outcome, rep.Reason = towpath.OutcomeFailed, r.why(end)
	case missing != "":
		rep.Outcome, rep.Reason = towpath.OutcomeFailed, fmt.Sprintf("the case %q was to run again and did not run", missing)
	}
	if rep.Outcome != towpath.OutcomePassed && rep.Outcome != towpath.OutcomeSkipped {
		rep.ExitCode = end.ExitCode
	}
	return map[int]towpath.AtomReport{0: rep}, nil
}

// why is the first reason that cargo itself gave.
func (r *cargoReading) why(end Ended) string {
	for _, f := range r.faults {
		if strings.HasPrefix(f, "process didn't") {
			return f
		}
	}
	if len(r.faults) > 0 {
		return clip(r.faults[0], 400) + " (" + end.Reason + ")"
	}
	return "cargo ended with " + end.Reason
}

// cases are the cases of all binaries; lost says that some brought no result.
func (r *cargoReading) cases() (cases []towpath.Case, lost string, ran map[string]bool) {
	plainNames := make(map[string]int)
	names := make(map[string]int)
	ran = make(map[string]bool)
	unfinished := 0
	for i := range r.binaries {
		for _, c := range r.binaries[i].cases {
			plainNames[c.name]++
		}
	}
	add := func(i int, name string, c towpath.Case) {
		c.Name = r.prefix(i) + name
		names[c.Name]++
		if n := names[c.Name]; n > 1 {
			c.Name = fmt.Sprintf("#%d %s", n, c.Name)
		}
		if plainNames[name] == 1 && !strings.Contains(name, " - ") { // those of documentation have no exact name
			c.Select = name
		}
		cases = append(cases, c)
	}
	for i := range r.binaries {
		b := &r.binaries[i]
		for _, c := range b.cases {
			ran[c.name] = ran[c.name] || c.state != towpath.CaseSkipped
			add(i, c.name, towpath.Case{State: c.state, Message: clip(c.message, 400), Detail: c.detail.String(), Duration: time.Duration(0)})
		}
		if b.open != "" {
			add(i, b.open, towpath.Case{State: towpath.CaseUnfinished})
		}
		if n := b.announced - len(b.cases); n > 0 || !b.ended {
			unfinished += max(n, 0)
			lost = fmt.Sprintf("%d of the %d tests of %s brought no result", max(n, 0), b.announced, r.name(i))
			if b.open != "" {
				lost = fmt.Sprintf("ended in the middle of %q; ", b.open) + lost
			}
		}
	}
	return cases, lost, ran
}

// target is what binary i is of, or "" if that cannot be told. Documentation may be tested by several binaries.
func (r *cargoReading) target(i int) string {
	n := len(r.targets)
	if n == len(r.binaries) || n > 0 && n < len(r.binaries) && r.targets[n-1] == "Doc-tests" {
		return r.targets[min(i, n-1)]
	}
	return ""
}

// name is what people call binary i.
func (r *cargoReading) name(i int) string { return cmp.Or(r.target(i), "the package") }

// prefix tells the cases of binary i from those of others: nothing for the library and its documentation.
func (r *cargoReading) prefix(i int) string {
	if t := r.target(i); t != "" && t != "src/lib.rs" && t != "Doc-tests" {
		return t + " > "
	}
	return ""
}
