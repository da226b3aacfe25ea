package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// WriteJUnit writes m as JUnit: a testsuite an atom, a testcase a case. A flaky case has a flakyFailure and counts as
// passed, a quarantined one is skipped, an unfinished one is an error. An atom that failed, was lost or canceled although
// no case of it says so has a case of its own name that does; so has one without any case. Whatever text a case holds, the
// file is valid XML 1.0 in UTF-8.
func WriteJUnit(w io.Writer, m Merged) error {
	b := bufio.NewWriter(w)
	x := &xmlWriter{w: b}
	total := junitTotals{}
	suites := make([][]junitEntry, len(m.Atoms))
	for i := range m.Atoms {
		suites[i] = entries(&m.Atoms[i])
		total.add(suites[i])
	}
	x.text("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites")
	name := m.Job
	if m.Project != "" {
		name = m.Project + " " + m.Job
	}
	x.attr("name", fmt.Sprintf("%s #%d", name, m.Build))
	x.totals(total)
	if !m.Started.IsZero() && m.Finished.After(m.Started) {
		x.attr("time", inSeconds(m.Finished.Sub(m.Started)))
	}
	x.text(">\n")
	for i := range m.Atoms {
		x.suite(&m.Atoms[i], suites[i])
	}
	x.text("</testsuites>\n")
	if x.err != nil {
		return fmt.Errorf("write JUnit report: %w", x.err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}

// junitEntry is one testcase as it is written: a case, or an atom as a whole.
type junitEntry struct {
	c     *MergedCase
	child string // element: failure, error, skipped, flakyFailure, or none
	typ   string
	why   string
}

type junitTotals struct{ tests, failures, errors, skipped int }

func (t *junitTotals) add(entries []junitEntry) {
	for _, e := range entries {
		t.tests++
		switch e.child {
		case "failure":
			t.failures++
		case "error":
			t.errors++
		case "skipped":
			t.skipped++
		}
	}
}

// entries are the testcases of an atom.
func entries(a *MergedAtom) []junitEntry {
	list := make([]junitEntry, 0, len(a.Cases)+1)
	said := false
	for i := range a.Cases {
		c := &a.Cases[i]
		e := junitEntry{c: c, why: c.Message}
		switch c.State {
		case towpath.CasePassed:
		case towpath.CaseFailed:
			e.child, said = "failure", true
		case towpath.CaseUnfinished:
			e.child, e.typ, said = "error", "unfinished", true
		case towpath.CaseSkipped:
			e.child = "skipped"
		case towpath.CaseQuarantined:
			e.child, e.typ, e.why = "skipped", "quarantined", strings.TrimSpace("quarantined: "+c.Message)
		case towpath.CaseFlaky:
			e.child, e.typ = "flakyFailure", "flaky"
		default:
			e.child, e.typ, said = "error", "unknown state", true
		}
		list = append(list, e)
	}
	whole := junitEntry{c: &MergedCase{Case: towpath.Case{Name: a.Name, Duration: a.Duration}}, why: a.Reason, typ: string(a.State)}
	if whole.why == "" {
		whole.why = string(a.State)
	}
	switch a.State {
	case towpath.AtomFailed:
		whole.child = "failure"
	case towpath.AtomLost, towpath.AtomCanceled, towpath.AtomPending, towpath.AtomRunning:
		whole.child = "error"
	case towpath.AtomSkipped, towpath.AtomQuarantined:
		whole.child, said = "skipped", len(list) > 0
	case towpath.AtomFlaky:
		whole.child, said = "flakyFailure", len(list) > 0
	case towpath.AtomPassed:
		whole.why, whole.typ, said = "", "", len(list) > 0
	default:
		said = len(list) > 0
	}
	if !said {
		list = append(list, whole)
	}
	return list
}

func (x *xmlWriter) suite(a *MergedAtom, list []junitEntry) {
	var t junitTotals
	t.add(list)
	x.text("  <testsuite")
	x.attr("name", a.Name)
	x.totals(t)
	x.attr("time", inSeconds(a.Duration))
	if !a.Started.IsZero() {
		x.attr("timestamp", a.Started.UTC().Format("2006-01-02T15:04:05"))
	}
	if a.Agent != "" {
		x.attr("hostname", a.Agent)
	}
	x.text(">\n")
	for _, e := range list {
		x.testcase(a, e)
	}
	x.text("  </testsuite>\n")
}

func (x *xmlWriter) testcase(a *MergedAtom, e junitEntry) {
	x.text("    <testcase")
	x.attr("classname", a.Name)
	x.attr("name", e.c.Name)
	x.attr("time", inSeconds(e.c.Duration))
	if e.c.File != "" {
		x.attr("file", e.c.File)
	}
	inside := e.child != "" && e.child != "skipped"
	if e.child == "" && e.c.Detail == "" {
		x.text("/>\n")
		return
	}
	x.text(">\n")
	if e.child != "" {
		x.text("      <" + e.child)
		if e.why != "" || e.child != "skipped" {
			x.attr("message", plainText(e.why))
		}
		if e.typ != "" {
			x.attr("type", e.typ)
		}
		if inside && e.c.Detail != "" {
			x.text(">")
			x.chars(plainText(e.c.Detail))
			x.text("</" + e.child + ">\n")
		} else {
			x.text("/>\n")
		}
	}
	if !inside && e.c.Detail != "" {
		x.text("      <system-out>")
		x.chars(plainText(e.c.Detail))
		x.text("</system-out>\n")
	}
	x.text("    </testcase>\n")
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(0, d).Seconds()) }

// xmlWriter writes XML and remembers the first error.
type xmlWriter struct {
	w   *bufio.Writer
	err error
}

func (x *xmlWriter) text(s string) {
	if x.err == nil {
		_, x.err = x.w.WriteString(s)
	}
}

func (x *xmlWriter) totals(t junitTotals) {
	x.text(fmt.Sprintf(` tests="%d" failures="%d" errors="%d" skipped="%d"`, t.tests, t.failures, t.errors, t.skipped))
}

func (x *xmlWriter) attr(name, value string) {
	x.text(" " + name + `="`)
	x.escaped(value, true)
	x.text(`"`)
}

func (x *xmlWriter) chars(s string) { x.escaped(s, false) }

// escaped writes s so that it is read back as it was, but for characters that XML 1.0 has no way to say: those become
// U+FFFD.
func (x *xmlWriter) escaped(s string, attr bool) {
	from := 0
	for i, r := range s {
		var to string
		size := len(string(r))
		switch {
		case r == '<':
			to = "&lt;"
		case r == '>':
			to = "&gt;"
		case r == '&':
			to = "&amp;"
		case r == '"' && attr:
			to = "&#34;"
		case r == '\r', attr && (r == '\n' || r == '\t'):
			to = fmt.Sprintf("&#%d;", r)
		case r == 0xFFFD:
			// As it stands, or for a byte that is no UTF-8.
			to = "\uFFFD"
			if s[i] != 0xef || !strings.HasPrefix(s[i:], "\uFFFD") {
				size = 1
			}
		case r < 0x20 && r != '\n' && r != '\t', r == 0xFFFE, r == 0xFFFF:
			to = "\uFFFD"
		default:
			continue
		}
		x.text(s[from:i])
		x.text(to)
		from = i + size
	}
	x.text(s[from:])
}
