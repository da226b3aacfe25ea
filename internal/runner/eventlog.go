package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/towpath/towpath"
)

// tick is a byte that our reporters print after they have written an event, so that an event counts as activity and is
// read at once. It is removed from the output.
const tick = 0x1e

// logged is one line of the file that a reporter of ours appends to while its runner works.
type logged struct {
	Type    string   `json:"t"` // file, list, start, drop, exit, case, end, unhandled, text, over
	File    string   `json:"file"`
	ID      string   `json:"id"`   // tells cases apart where the runner can; else the path does
	Path    []string `json:"path"` // titles, outermost first
	Full    string   `json:"full"` // how the runner selects the case
	State   string   `json:"state"`
	MS      float64  `json:"ms"`
	Message string   `json:"message"`
	Detail  string   `json:"detail"`
	Text    string   `json:"text"`
	Cases   []logged `json:"cases"` // of list: those that are known to exist; of end: all results, in order
}

func (l logged) key() string {
	if l.ID != "" {
		return l.ID
	}
	return strings.Join(l.Path, "\x00")
}

// eventRunner describes a runner whose results come through a reporter of ours.
type eventRunner struct {
	name      string // for people
	separator string // between the titles of a case
	install   string // what to do if the runner is missing
}

// eventReading follows such a runner.
type eventReading struct {
	runner eventRunner
	spec   Spec
	log    *lineFile
	units  map[string]int // by file, as the runner may name it
	files  []fileLog      // by unit
	only   []map[string]bool
	others bool // files that nobody asked for ran too, and one of them failed
	loose  []string
	over   bool                       // the reporter saw the end of the run
	decode func(line []byte) []logged // nil: JSON, as our own reporters write it
	out    *headWriter
	err    *headWriter
}

// fileLog is what is known of one test file.
type fileLog struct {
	began     bool
	ended     bool
	state     string
	ms        float64
	fault     string // why the file as a whole failed: one line
	unhandled string
	left      bool     // it called process.exit(0) itself
	known     []logged // exist, from a list or from their start
	running   []logged // began, in order
	dropped   []logged // turned out to be no cases: suites
	results   []logged
}

// newEventReading creates the file of events and follows it. A unit with Cases is reported by those cases alone if
// selecting is set.
func newEventReading(r eventRunner, s Spec, selecting bool) (*eventReading, string, error) {
	e := &eventReading{
		runner: r, spec: s,
		units: make(map[string]int, 2*len(s.Units)),
		files: make([]fileLog, len(s.Units)),
		only:  make([]map[string]bool, len(s.Units)),
	}
	log, err := newLineFile(s.Reports, r.name+"-*.jsonl", e.line)
	if err != nil {
		return nil, "", err
	}
	e.log = log
	real, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		real = s.Dir
	}
	for i, u := range s.Units {
		for _, dir := range []string{s.Dir, real} {
			e.units[under(dir, u.Name)] = i
		}
		if target, err := filepath.EvalSymlinks(under(real, u.Name)); err == nil {
			if _, taken := e.units[target]; !taken {
				e.units[target] = i
			}
		}
		if selecting && len(u.Cases) > 0 {
			e.only[i] = make(map[string]bool, len(u.Cases))
			for _, c := range u.Cases {
				e.only[i][c] = true
			}
		}
	}
	e.out = &headWriter{reading: e}
	e.err = &headWriter{reading: e}
	return e, log.name(), nil
}

func under(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// Stdout takes the command's standard output.
func (e *eventReading) Stdout() io.Writer { return e.out }

// Stderr takes the command's standard error.
func (e *eventReading) Stderr() io.Writer { return e.err }

// headWriter passes one output stream on and keeps its beginning, for the reason if nothing ran.
type headWriter struct {
	reading *eventReading
	head    []byte
}

func (w *headWriter) Write(p []byte) (int, error) {
	n := len(p)
	if bytes.IndexByte(p, tick) >= 0 {
		p = bytes.ReplaceAll(p, []byte{tick}, nil)
	}
	w.reading.log.poll()
	if len(p) > 0 {
		if room := 8<<10 - len(w.head); room > 0 {
			w.head = append(w.head, p[:min(room, len(p))]...)
		}
		w.reading.spec.Events.Output(w.reading.solo(), p)
	}
	return n, nil
}

// solo is the unit to which the command's own output belongs.
func (e *eventReading) solo() int {
	if len(e.spec.Units) == 1 {
		return 0
	}
	return -1
}

// line enters one line of the file of events.
func (e *eventReading) line(line []byte) {
	for _, l := range e.decoded(line) {
		e.take(l)
	}
}

func (e *eventReading) decoded(line []byte) []logged {
	if e.decode != nil {
		return e.decode(line)
	}
	var l logged
	if json.Unmarshal(line, &l) != nil {
		return nil // a line that was cut short by a kill
	}
	return []logged{l}
}

// take enters one event.
func (e *eventReading) take(l logged) {
	switch l.Type {
	case "over":
		e.over = true
		return
	case "unhandled":
		text := strings.TrimSpace(firstLine(l.Message))
		if i, ok := e.units[l.File]; ok {
			e.files[i].unhandled = text
		} else {
			e.loose = append(e.loose, text)
		}
		e.say(l.File, "unhandled error: "+text+"\n"+indent(l.Detail))
		return
	}
	i, ok := e.units[l.File]
	if !ok {
		if l.Type == "end" && l.State == "failed" {
			e.others = true
		}
		return
	}
	f := &e.files[i]
	if !f.began && l.Type != "list" { // a list says what there is, not that it runs
		f.began = true
		e.spec.Events.Began(i)
	}
	switch l.Type {
	case "list":
		f.known = append(f.known, l.Cases...)
	case "start":
		f.running = append(f.running, l)
	case "exit":
		f.left = true
	case "drop":
		f.dropped = append(f.dropped, l)
	case "case":
		f.results = append(f.results, l)
		e.show(i, l)
	case "text":
		e.spec.Events.Output(i, []byte(l.Text))
	case "end":
		e.end(i, l)
	}
}

// end enters the end of a file.
func (e *eventReading) end(i int, l logged) {
	f := &e.files[i]
	if f.ended { // a second project of the same runner ran the file too
		f.state = worse(f.state, l.State)
	} else {
		f.state = l.State
	}
	f.ended = true
	f.ms += l.MS
	if l.Message != "" && f.fault == "" {
		f.fault = firstLine(l.Message)
	}
	if l.Detail != "" {
		e.spec.Events.Output(i, []byte(withNewline(l.Detail)))
	}
	if len(l.Cases) > 0 {
		known := make(map[string]int, len(f.results))
		for _, r := range f.results {
			known[r.key()]++
		}
		for _, c := range l.Cases {
			if known[c.key()] > 0 {
				known[c.key()]--
				continue
			}
			e.show(i, c)
		}
		f.results = l.Cases
	}
}

func worse(a, b string) string {
	if a == "failed" || b == "failed" {
		return "failed"
	}
	if a == "passed" || b == "passed" {
		return "passed"
	}
	return b
}

// show prints one result for people, in the order in which results came.
func (e *eventReading) show(i int, l logged) {
	if only := e.only[i]; only != nil && !only[l.Full] {
		return
	}
	name := strings.Join(l.Path, e.runner.separator)
	var text string
	switch l.State {
	case "passed":
		text = fmt.Sprintf("ok    %s (%.0f ms)\n", name, l.MS)
	case "skipped":
		text = "skip  " + name + "\n"
	default:
		text = "FAIL  " + name + "\n" + indent(cmpText(l.Detail, l.Message))
	}
	e.spec.Events.Output(i, []byte(text))
}

func (e *eventReading) say(file, text string) {
	i, ok := e.units[file]
	if !ok {
		i = e.solo()
	}
	e.spec.Events.Output(i, []byte(withNewline(text)))
}

func cmpText(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

func withNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

func indent(s string) string {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return ""
	}
	return "      " + strings.ReplaceAll(s, "\n", "\n      ") + "\n"
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return clip(line, 400)
		}
	}
	return ""
}

// clip shortens s to at most n bytes at the boundary of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// helperFile writes a reporter into the session's scratch directory, once for all attempts, and returns its path.
func helperFile(scratch, name string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	ext := filepath.Ext(name)
	path := filepath.Join(scratch, strings.TrimSuffix(name, ext)+"-"+hex.EncodeToString(sum[:6])+ext)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return path, nil
	}
	tmp, err := os.CreateTemp(scratch, name+".*")
	if err != nil {
		return "", fmt.Errorf("write the reporter %s: %w", name, err)
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write the reporter %s: %w", name, err), os.Remove(tmp.Name()))
	}
	return path, nil
}

// withArguments appends arguments after the atoms. Shell text must hand its arguments on for them to arrive.
func withArguments(s Spec, kind towpath.ReportKind, args ...string) (Command, error) {
	c := s.Base
	if len(s.Job.Argv) == 0 && !strings.HasSuffix(strings.TrimSpace(s.Job.Run), `"$@"`) {
		return c, towpath.Errorf(towpath.CodeConfig,
			`job %s: report %s adds arguments to the command, but run does not end with "$@": let it end so, or use report: junit`, s.Job.Name, kind)
	}
	c.Argv = append(append(make([]string, 0, len(c.Argv)+len(args)), c.Argv...), args...)
	return c, nil
}

// selectable says whether every unit asks for some of its cases only: the selection is one for the whole command.
func selectable(units []towpath.OfferedUnit) bool {
	size := 0
	for _, u := range units {
		if len(u.Cases) == 0 {
			return false
		}
		for _, c := range u.Cases {
			size += len(c)
		}
	}
	return size < 32<<10
}

// exactly is a JavaScript regular expression that matches the units' cases and nothing else.
func exactly(units []towpath.OfferedUnit) string {
	var alternatives []string
	for _, u := range units {
		for _, c := range u.Cases {
			alternatives = append(alternatives, escapeRegexp(c))
		}
	}
	return "^(?:" + strings.Join(alternatives, "|") + ")$"
}

func escapeRegexp(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\^$.|?*+()[]{}/`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
