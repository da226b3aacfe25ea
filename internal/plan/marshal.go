package plan

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/towpath/towpath"
)

// schemaURL is where editors find the schema of this file.
const schemaURL = "https://raw.githubusercontent.com/towpath/towpath/main/internal/plan/towpath.schema.json"

// Marshal writes the towpath.yaml from which Parse reads these jobs, with the keys only that differ from their defaults. It
// refuses a job that a file cannot describe, as one made by FromCommand.
func Marshal(jobs ...towpath.Job) ([]byte, error) {
	if len(jobs) == 0 {
		return nil, fmt.Errorf("write %s: there is no job", FileName)
	}
	w := &writer{}
	w.line(0, "# yaml-language-server: $schema="+schemaURL)
	w.line(0, "version: 1")
	w.line(0, "jobs:")
	for i, j := range jobs {
		if len(j.Argv) > 0 {
			return nil, towpath.Errorf(towpath.CodeUsage, "job %q is a command without a shell, which %s cannot hold: give it run", j.Name, FileName)
		}
		if i > 0 {
			w.line(0, "")
		}
		w.job(j)
	}
	data := []byte(w.b.String())
	// What a file does not say must not get lost in silence, so the text is read back before anybody trusts it.
	f, err := Parse(FileName, data)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", FileName, err)
	}
	for _, j := range jobs {
		if got := f.Jobs[j.Name]; !reflect.DeepEqual(got, j) {
			return nil, fmt.Errorf("write %s: job %q would read back as %+v, not %+v", FileName, j.Name, got, j)
		}
	}
	return data, nil
}

type writer struct{ b strings.Builder }

func (w *writer) line(indent int, text string) {
	if text != "" {
		w.b.WriteString(strings.Repeat("  ", indent))
	}
	w.b.WriteString(text)
	w.b.WriteByte('\n')
}

// key writes one entry of a job, with a comment if there is one.
func (w *writer) key(name, text, comment string) {
	line := name + ": " + text
	if comment != "" && !strings.Contains(text, "\n") {
		line = fmt.Sprintf("%-44s # %s", line, comment)
	}
	w.line(2, line)
}

func (w *writer) job(j towpath.Job) {
	d := Defaults()
	w.line(1, quote(j.Name)+":")
	w.atoms(j.Atoms)
	if j.Setup != "" {
		w.key("setup", shellText(j.Setup), "once per build, before any atom")
	}
	comment := ""
	if strings.Contains(j.Run, `"$@"`) {
		comment = `"$@" is the atoms`
	}
	w.key("run", shellText(j.Run), comment)
	if j.Teardown != "" {
		w.key("teardown", shellText(j.Teardown), "once per build, after everything else")
	}
	if len(j.Env) > 0 {
		w.line(2, "env:")
		for _, name := range slices.Sorted(maps.Keys(j.Env)) {
			w.line(3, name+": "+quote(j.Env[name]))
		}
	}
	if len(j.Labels) > 0 {
		w.key("labels", flow(j.Labels), "only agents that carry all of them")
	}
	if j.Slots != d.Slots {
		w.key("slots", strconv.Itoa(j.Slots), "that one attempt takes")
	}
	if j.Parallel != d.Parallel {
		w.key("parallel", pairs([]pair{{"max", unless0(j.Parallel.Max)}, {"per_agent", unless0(j.Parallel.PerAgent)}}), "")
	}
	switch {
	case j.Batch.Count != 0:
		w.key("batch", strconv.Itoa(j.Batch.Count), "atoms in one command")
	case j.Batch.Target != 0:
		w.key("batch", j.Batch.Target.String(), "that one command should take")
	}
	if j.Timeouts != d.Timeouts {
		t := j.Timeouts
		w.key("timeouts", pairs([]pair{
			{"queue", differing(t.Queue, d.Timeouts.Queue)},
			{"setup", differing(t.Setup, d.Timeouts.Setup)},
			{"atom", differing(t.Atom, d.Timeouts.Atom)},
			{"silence", differing(t.Silence, d.Timeouts.Silence)},
			{"build", differing(t.Build, d.Timeouts.Build)},
		}), "")
	}
	if j.Retries != d.Retries {
		var p []pair
		if j.Retries.Failed != d.Retries.Failed {
			p = append(p, pair{"failed", strconv.Itoa(j.Retries.Failed)})
		}
		if j.Retries.Lost != d.Retries.Lost {
			p = append(p, pair{"lost", strconv.Itoa(j.Retries.Lost)})
		}
		w.key("retries", pairs(p), "")
	}
	w.flag("fail_fast", j.FailFast, "stop at the first failure")
	w.quarantine(j.Quarantine)
	switch {
	case j.Report.Kind == towpath.ReportJUnit:
		w.key("report", pairs([]pair{{"junit", flowQuote(j.Report.Glob)}}), "")
	case j.Report != d.Report:
		w.key("report", string(j.Report.Kind), "how the results of single cases are read")
	}
	w.flag("allow_empty", j.AllowEmpty, "no atoms is no error")
	w.flag("split", j.Split, "also split packages that have a TestMain")
}

func (w *writer) atoms(a towpath.AtomSource) {
	switch {
	case a.Command != "":
		text := shellText(a.Command)
		if strings.HasPrefix(text, "|") {
			text = quote(a.Command)
		}
		w.line(2, "atoms:")
		w.line(3, "command: "+text+" # prints one atom a line")
	case len(a.Glob) == 1:
		w.line(2, "atoms:")
		w.line(3, "glob: "+quote(a.Glob[0]))
	case len(a.Glob) > 0:
		w.line(2, "atoms:")
		w.list("glob", a.Glob)
	default:
		w.line(2, "atoms:")
		w.list("list", a.List)
	}
}

func (w *writer) list(name string, items []string) {
	w.line(3, name+":")
	for _, item := range items {
		w.line(4, "- "+quote(item))
	}
}

func (w *writer) flag(name string, set bool, comment string) {
	if set {
		w.key(name, "true", comment)
	}
}

func (w *writer) quarantine(entries []towpath.Quarantine) {
	if len(entries) == 0 {
		return
	}
	w.line(2, "quarantine: # these run, and do not count")
	for _, q := range entries {
		if q.Owner == "" && q.Until.IsZero() {
			w.line(3, "- "+quote(q.Pattern))
			continue
		}
		w.line(3, "- pattern: "+quote(q.Pattern))
		if q.Owner != "" {
			w.line(3, "  owner: "+quote(q.Owner))
		}
		if !q.Until.IsZero() {
			w.line(3, "  until: "+untilText(q.Until))
		}
	}
}

func untilText(at time.Time) string {
	if h, m, s := at.UTC().Clock(); h == 23 && m == 59 && s == 59 && at.Nanosecond() == 0 {
		return at.UTC().Format(time.DateOnly)
	}
	return quote(at.UTC().Format(time.RFC3339Nano))
}

type pair struct{ name, text string }

// pairs writes a mapping on one line without the entries that have no text.
func pairs(all []pair) string {
	var given []string
	for _, p := range all {
		if p.text != "" {
			given = append(given, p.name+": "+p.text)
		}
	}
	return "{" + strings.Join(given, ", ") + "}"
}

func unless0(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func differing(d, from time.Duration) string {
	if d == from {
		return ""
	}
	return short(d)
}

func flow(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = flowQuote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// plainText is what means the same without quotes wherever a value may stand in block style: nothing that YAML takes for
// a mark, a comment, a number, a time or a word of its own.
var (
	plainText = regexp.MustCompile(`^[A-Za-z./$_][^\x00-\x1f\x7f-\x{a0}\x{2028}\x{2029}\x{feff}]*$`)
	plainFlow = regexp.MustCompile(`^[A-Za-z./$_][A-Za-z0-9./$_-]*$`)
	yamlWord  = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null|[.](inf|nan))$`)
)

func quote(s string) string {
	_, number := strconv.ParseFloat(s, 64)
	if plainText.MatchString(s) && !yamlWord.MatchString(s) && number != nil && !strings.Contains(s, ": ") &&
		!strings.Contains(s, " #") && !strings.HasSuffix(s, ":") && !strings.HasSuffix(s, " ") {
		return s
	}
	return doubleQuote(s)
}

func flowQuote(s string) string {
	if plainFlow.MatchString(s) {
		return quote(s)
	}
	return doubleQuote(s)
}

func doubleQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c > 0xffff && !unicode.IsPrint(c):
			fmt.Fprintf(&b, `\U%08x`, c)
		case !unicode.IsPrint(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shellText writes several lines as they are, as a block, if a block can hold them.
func shellText(s string) string {
	body := strings.TrimSuffix(s, "\n")
	if !strings.Contains(body, "\n") || strings.HasPrefix(body, " ") || strings.HasPrefix(body, "\n") || strings.HasSuffix(body, "\n") ||
		strings.ContainsFunc(body, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }) {
		return quote(s)
	}
	var b strings.Builder
	b.WriteString("|")
	if body == s {
		b.WriteString("-")
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimSpace(line) == "" && line != "" || strings.HasSuffix(line, " ") {
			return quote(s)
		}
		b.WriteString("\n")
		if line != "" {
			b.WriteString("      " + line)
		}
	}
	return b.String()
}
