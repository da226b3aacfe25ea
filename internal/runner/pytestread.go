package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// pytestEvent is one line of the plugin.
type pytestEvent struct {
	Event   string        `json:"e"` // items, collect_error, collect_skip, start, report, finish, internal, over
	ID      string        `json:"id"`
	File    string        `json:"file"`
	Name    string        `json:"name"`
	Select  string        `json:"select"`
	When    string        `json:"when"` // setup, call, teardown
	Outcome string        `json:"outcome"`
	Seconds float64       `json:"seconds"`
	XFail   *string       `json:"xfail"`
	Message string        `json:"message"`
	Text    string        `json:"text"`
	Items   []pytestEvent `json:"items"`
}

// pytestReading follows one pytest.
type pytestReading struct {
	spec     Spec
	selected bool
	events   *lineFile
	out, err tickWriter
	paths    map[string]int // units by file or folder
	ids      map[string]int // units that are node ids
	units    []pytestUnit
	items    map[string]*pytestItem
	fault    string // an internal error of pytest, one line
	loose    string // a failure in a file that is no unit's
	over     bool
	listed   bool // all tests are known: xdist knows them one by one only
	told     map[int]bool
}

type pytestUnit struct {
	began bool
	fault string // it could not be collected
	items []*pytestItem
}

// pytestItem is one test.
type pytestItem struct {
	kase     towpath.Case
	unit     int
	began    bool
	finished bool
}

func newPytestReading(s Spec, selected bool) (*pytestReading, error) {
	r := &pytestReading{
		spec: s, selected: selected, paths: make(map[string]int), ids: make(map[string]int),
		units: make([]pytestUnit, len(s.Units)), items: make(map[string]*pytestItem), told: make(map[int]bool),
	}
	events, err := newLineFile(s.Reports, "pytest-*.jsonl", r.line)
	if err != nil {
		return nil, err
	}
	r.events = events
	pass := func(p []byte) { s.Events.Output(solo(s.Units), p) }
	r.out = tickWriter{tail{keep: 8 << 10, to: pass}, events}
	r.err = tickWriter{tail{keep: 8 << 10, to: pass}, events}
	for i, u := range s.Units {
		name, id, isID := strings.Cut(u.Name, "::")
		path := under(s.Dir, name)
		if isID {
			r.ids[path+"::"+id] = i
			continue
		}
		r.paths[path] = i
	}
	return r, nil
}

func (r *pytestReading) Stdout() io.Writer { return &r.out }
func (r *pytestReading) Stderr() io.Writer { return &r.err }

// unit is the unit that a test belongs to, or -1.
func (r *pytestReading) unit(e pytestEvent) int {
	paths := []string{e.File}
	if real, err := filepath.EvalSymlinks(r.spec.Dir); err == nil && real != r.spec.Dir {
		if rel, err := filepath.Rel(real, e.File); err == nil && filepath.IsLocal(rel) {
			paths = append(paths, filepath.Join(r.spec.Dir, rel))
		}
	}
	for _, path := range paths {
		if len(r.ids) > 0 && e.Name != "" {
			for id := path + "::" + e.Name; ; {
				if i, ok := r.ids[id]; ok {
					return i
				}
				cut := max(strings.LastIndex(id, "::"), strings.LastIndexByte(id, '['))
				if cut <= len(path) {
					break
				}
				id = id[:cut]
			}
		}
		for dir := path; ; dir = filepath.Dir(dir) {
			if i, ok := r.paths[dir]; ok {
				return i
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return -1
}

func (r *pytestReading) line(line []byte) {
	var e pytestEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return // the end of it was lost with the process: the test it speaks of stays open
	}
	switch e.Event {
	case "items":
		r.listed = len(e.Items) > 0
		for _, it := range e.Items {
			r.item(it)
		}
	case "internal":
		r.fault = firstLine(e.Message)
	case "over":
		r.over = true
	case "collect_error":
		r.collectError(e)
	case "collect_skip":
		it := r.item(e)
		if it.kase.Name == "" {
			it.kase.Name = filepath.Base(e.File)
		}
		it.kase.State, it.kase.Message = towpath.CaseSkipped, skipReason(e.Message)
		it.began, it.finished = true, true
	case "start":
		it := r.item(e)
		it.began = true
		if it.unit >= 0 && !r.units[it.unit].began {
			r.units[it.unit].began = true
			r.spec.Events.Began(it.unit)
		}
	case "report":
		r.item(e).phase(e)
	case "finish":
		it := r.item(e)
		it.finished = true
		r.show(it)
		r.tell(it.unit)
	}
}

func (r *pytestReading) item(e pytestEvent) *pytestItem {
	it := r.items[e.ID]
	if it == nil {
		it = &pytestItem{unit: r.unit(e)}
		it.kase = towpath.Case{Name: e.Name, Select: e.Select, File: e.File, State: towpath.CaseUnfinished}
		if rel, err := filepath.Rel(r.spec.Dir, e.File); err == nil && filepath.IsLocal(rel) {
			it.kase.File = rel
		}
		r.items[e.ID] = it
		if it.unit >= 0 {
			u := &r.units[it.unit]
			if pathUnit := r.spec.Units[it.unit].Name; !sameFile(pathUnit, it.kase.File) && it.kase.Name != "" && !strings.Contains(pathUnit, "::") {
				it.kase.Name = it.kase.File + "::" + it.kase.Name // the unit is a folder
			}
			u.items = append(u.items, it)
		}
	}
	return it
}

func sameFile(a, b string) bool { return filepath.Clean(a) == filepath.Clean(b) }

func (r *pytestReading) collectError(e pytestEvent) {
	message := firstLine(plain(e.Message))
	i := r.unit(e)
	if i < 0 {
		if r.loose == "" {
			r.loose = cmpText(e.ID, e.File) + " cannot be collected: " + message
		}
		return
	}
	if r.units[i].fault == "" {
		r.units[i].fault = "cannot be collected: " + message
	}
	r.spec.Events.Output(i, []byte(withNewline(plain(e.Text))))
}

// phase enters the report of one of a test's phases. The worst phase counts; a new set-up is a new try of the same test.
func (it *pytestItem) phase(e pytestEvent) {
	k := &it.kase
	if e.When == "setup" {
		k.State, k.Message, k.Detail = towpath.CaseUnfinished, "", ""
	}
	k.Duration += time.Duration(e.Seconds * float64(time.Second))
	switch {
	case e.Outcome == "failed":
		message := firstLine(plain(e.Message))
		if e.When != "call" {
			message = e.When + ": " + message
		}
		if k.State != towpath.CaseFailed {
			k.Message = message
		} else if e.When == "teardown" {
			k.Message += "; " + message
		}
		k.State = towpath.CaseFailed
		k.Detail = clip(cmpJoin(k.Detail, plain(e.Text)), 64<<10)
	case k.State == towpath.CaseFailed:
	case e.Outcome == "skipped":
		k.State, k.Message = towpath.CaseSkipped, skipReason(e.Message)
		if e.XFail != nil {
			k.Message = strings.TrimSuffix("expected failure: "+firstLine(*e.XFail), ": ")
		}
	case e.Outcome == "passed" && e.When == "call" && k.State == towpath.CaseUnfinished:
		k.State = towpath.CasePassed
	}
}

func cmpJoin(a, b string) string {
	if a == "" {
		return b
	}
	return withNewline(a) + b
}

func skipReason(message string) string {
	return strings.TrimPrefix(firstLine(plain(message)), "Skipped: ")
}

// show prints a failure into its own unit's log where the command's output belongs to several.
func (r *pytestReading) show(it *pytestItem) {
	if it.unit < 0 {
		if it.kase.State == towpath.CaseFailed && r.loose == "" {
			r.loose = it.kase.File + "::" + it.kase.Name + " failed"
		}
		return
	}
	if len(r.spec.Units) > 1 && it.kase.State == towpath.CaseFailed {
		r.spec.Events.Output(it.unit, fmt.Appendf(nil, "FAIL  %s\n%s", it.kase.Name, indent(it.kase.Detail)))
	}
}

// tell reports a unit that failed and is complete. One that passed waits for the exit status, which may speak against it.
func (r *pytestReading) tell(unit int) {
	if unit < 0 || r.told[unit] || !r.listed {
		return
	}
	failed := false
	for _, it := range r.units[unit].items {
		if !it.finished {
			return
		}
		failed = failed || it.kase.State == towpath.CaseFailed
	}
	if failed {
		one := r.judge(unit, Ended{ExitCode: 1})
		r.told[unit] = true
		r.spec.Events.Done(unit, one)
	}
}

// Close judges what was not told of yet.
func (r *pytestReading) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	err := r.events.close()
	reports := make(map[int]towpath.AtomReport, len(r.units))
	explained := len(r.told) > 0
	for i := range r.units {
		if r.told[i] {
			continue
		}
		reports[i] = r.judge(i, end)
		explained = explained || !clean(reports[i])
	}
	reason := ""
	switch {
	case end.Stopped != "" && explained:
	case end.Stopped != "":
		reason = end.Reason + ", after all tests had ended"
	case r.loose != "":
		reason = r.loose + ", in a file that is no atom of this batch"
	case explained:
	case r.fault != "":
		reason = "internal error of pytest: " + r.fault
	case !r.over:
		reason = "pytest ended before it had closed its run: " + because(end, r.said())
	case end.ExitCode != 0 && end.ExitCode != pytestNoTests || end.Signal != "":
		reason = because(end, r.said()) + ", though no test failed"
	}
	if reason == "" {
		return reports, err
	}
	for i, one := range reports {
		if !clean(one) {
			continue
		}
		one.Outcome, one.Reason, one.ExitCode = towpath.OutcomeFailed, reason, end.ExitCode
		switch {
		case end.Stopped == towpath.OutcomeCanceled, end.Stopped != "" && len(r.units) == 1:
			one.Outcome = end.Stopped
		case len(r.units) > 1:
			one.Outcome = towpath.OutcomeUnclear
		}
		reports[i] = one
	}
	return reports, err
}

// pytestNoTests is the exit code with which pytest says that it collected no test.
const pytestNoTests = 5

func (r *pytestReading) said() string {
	return cmpText(lastLine(string(r.err.held)), lastLine(string(r.out.held)))
}

// judge is the report of one unit.
func (r *pytestReading) judge(i int, end Ended) towpath.AtomReport {
	u := &r.units[i]
	var cases []towpath.Case
	running := ""
	began := false
	ran := make(map[string]bool)
	for _, it := range u.items {
		k := it.kase
		began = began || it.began
		ran[k.Select] = ran[k.Select] || it.finished
		if it.began && !it.finished {
			running = k.Name
			k.State = towpath.CaseFailed
			k.Message = cmpText(k.Message, "the interpreter ended while this test ran ("+because(end, "")+")")
			if end.Stopped != "" {
				k.Message = end.Reason
			}
		}
		cases = append(cases, k)
	}
	one := caseReport(cases)
	for _, k := range cases {
		one.Duration += k.Duration
	}
	if len(r.units) == 1 && end.Wall > 0 {
		one.Duration = end.Wall
	}
	alone := len(r.units) == 1
	switch {
	case u.fault != "":
		one.Outcome, one.Reason, one.Failed = towpath.OutcomeFailed, u.fault, nil
	case end.Stopped != "" && (running != "" || alone && one.Outcome != towpath.OutcomeFailed || end.Stopped == towpath.OutcomeCanceled && one.Counts.Unfinished > 0):
		one.Outcome, one.Reason, one.Failed = end.Stopped, end.Reason, nil
		if running != "" {
			one.Reason += fmt.Sprintf(", in the middle of %q", running)
		}
	case running != "":
		one.Failed = nil
	case one.Counts.Failed > 0:
	case len(cases) == 0 && r.over && (end.ExitCode <= 1 || end.ExitCode == pytestNoTests) && end.Stopped == "" && r.fault == "":
		one.Outcome, one.Reason = towpath.OutcomeSkipped, "no tests in it"
	case (len(cases) == 0 || one.Counts.Unfinished > 0) && end.Stopped == towpath.OutcomeCanceled:
		one.Outcome, one.Reason = end.Stopped, end.Reason
	case (len(cases) == 0 || one.Counts.Unfinished > 0) && !alone:
		one.Outcome, one.Reason = towpath.OutcomeUnclear, "had not ended when pytest did: "+because(end, r.said())
	case len(cases) == 0:
		one.Outcome, one.Reason = towpath.OutcomeFailed, "did not run: "+because(end, r.said())
	case one.Counts.Unfinished > 0 && !began:
		one.Outcome, one.Reason, one.Failed = towpath.OutcomeFailed, "pytest ended before its tests ran: "+because(end, r.said()), nil
	case one.Counts.Unfinished > 0:
		one.Outcome, one.Reason, one.Failed = towpath.OutcomeFailed, fmt.Sprintf("%d tests never ran: %s", one.Counts.Unfinished, because(end, r.said())), nil
	}
	if r.selected && clean(one) {
		for _, id := range r.spec.Units[i].Cases {
			if !ran[id] {
				one.Outcome, one.Reason, one.Failed = towpath.OutcomeFailed, fmt.Sprintf("the rerun selected %s, and no such test ran", id), nil
			}
		}
	}
	if !clean(one) {
		one.ExitCode = end.ExitCode
	}
	return one
}
