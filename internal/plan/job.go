package plan

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml/ast"

	"github.com/towpath/towpath"
)

// jobFields says how each key of a job is read.
var jobFields = map[string]func(*reader, value, *towpath.Job){
	"atoms":       func(r *reader, v value, j *towpath.Job) { j.Atoms = r.atoms(v) },
	"setup":       func(r *reader, v value, j *towpath.Job) { j.Setup = r.shell(v) },
	"run":         func(r *reader, v value, j *towpath.Job) { j.Run = r.command(v) },
	"teardown":    func(r *reader, v value, j *towpath.Job) { j.Teardown = r.shell(v) },
	"env":         func(r *reader, v value, j *towpath.Job) { j.Env = r.env(v) },
	"labels":      func(r *reader, v value, j *towpath.Job) { j.Labels = r.lines(v, "labels", r.label) },
	"slots":       func(r *reader, v value, j *towpath.Job) { j.Slots = r.number(v, 1) },
	"parallel":    func(r *reader, v value, j *towpath.Job) { j.Parallel = r.parallel(v) },
	"batch":       func(r *reader, v value, j *towpath.Job) { j.Batch = r.batch(v) },
	"timeouts":    func(r *reader, v value, j *towpath.Job) { r.timeouts(v, &j.Timeouts) },
	"retries":     func(r *reader, v value, j *towpath.Job) { r.retries(v, &j.Retries) },
	"fail_fast":   func(r *reader, v value, j *towpath.Job) { j.FailFast = r.boolean(v) },
	"quarantine":  func(r *reader, v value, j *towpath.Job) { j.Quarantine = r.quarantine(v) },
	"report":      func(r *reader, v value, j *towpath.Job) { j.Report = r.report(v) },
	"allow_empty": func(r *reader, v value, j *towpath.Job) { j.AllowEmpty = r.boolean(v) },
	"split":       func(r *reader, v value, j *towpath.Job) { j.Split = r.boolean(v) },
}

// reportKinds are the report formats that are one word. JUnit needs a pattern too.
var reportKinds = []towpath.ReportKind{
	towpath.ReportNone, towpath.ReportGoTest, towpath.ReportTAP, towpath.ReportPytest, towpath.ReportJest,
	towpath.ReportVitest, towpath.ReportNode, towpath.ReportRSpec, towpath.ReportPHPUnit, towpath.ReportCargo,
}

var (
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	labelText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/=-]*$`)
	namesAtom = regexp.MustCompile(`\$(\{[#!]?)?TOWPATH_ATOM([^A-Za-z0-9_]|$)`)
)

func (r *reader) job(name string, v value) towpath.Job {
	j := Defaults()
	j.Name = name
	faults := len(r.faults)
	fields := r.mapping(v, jobKeys)
	given := make(map[string]value, len(fields))
	for _, f := range fields {
		given[f.name] = f.value
		jobFields[f.name](r, f.value, &j)
	}
	if len(fields) == 0 && len(r.faults) > faults {
		return j // it is no mapping at all, or nothing in it is known
	}
	if _, ok := given["atoms"]; !ok {
		r.fault(v.key, "%s has no atoms: add command, glob or list below atoms", v.path)
	}
	if _, ok := given["run"]; !ok {
		r.fault(v.key, `%s has no run: add the command that runs the atoms "$@"`, v.path)
	}
	if split := given["split"]; j.Split && j.Report.Kind != towpath.ReportGoTest {
		r.fault(split.key, "%s splits Go packages only: it needs report: gotest", split.path)
	}
	j.PerAtom = startsPerAtom(j)
	return j
}

// WithBatch returns the job with other batches, as the command line asks for, and with what follows from them.
func WithBatch(j towpath.Job, b towpath.Batch) towpath.Job {
	j.Batch = b
	j.PerAtom = startsPerAtom(j)
	return j
}

// startsPerAtom says whether the command starts once per atom, so that atoms which did not start can move elsewhere.
func startsPerAtom(j towpath.Job) bool {
	return j.Batch.Count == 1 || namesAtom.MatchString(j.Run) || takesAtom(j.Argv)
}

// takesAtom says whether a word of the command stands for an atom.
func takesAtom(argv []string) bool {
	return slices.ContainsFunc(argv, func(word string) bool { return strings.Contains(word, "{}") })
}

func (r *reader) atoms(v value) towpath.AtomSource {
	var a towpath.AtomSource
	faults := len(r.faults)
	fields := r.mapping(v, atomsKeys)
	for i, f := range fields {
		if i > 0 {
			r.fault(f.key, "%s cannot stand beside %s: atoms come from one of command, glob or list", f.path, fields[0].path)
		}
		switch f.name {
		case "command":
			a.Command = r.command(f.value)
		case "glob":
			a.Glob = r.globs(f.value)
		case "list":
			a.List = r.lines(f.value, "atoms", func(value, string) bool { return true })
		}
	}
	if len(fields) == 0 && len(r.faults) == faults {
		r.fault(v.token(r), "%s is empty: add command, glob or list", v.path)
	}
	return a
}

// command reads shell text that must do something.
func (r *reader) command(v value) string {
	s, ok := r.text(v)
	if ok && strings.TrimSpace(s) == "" {
		r.fault(v.token(r), "%s is empty: write the command", v.path)
	}
	return s
}

// shell reads shell text that may be blank, which is the same as none.
func (r *reader) shell(v value) string {
	s, _ := r.text(v)
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return s
}

func (r *reader) globs(v value) []string {
	if _, ok := r.resolve(v.node).(*ast.SequenceNode); ok {
		return r.lines(v, "patterns", r.pattern)
	}
	if s, ok := r.line(v); ok && r.pattern(v, s) {
		return []string{s}
	}
	return nil
}

// pattern holds a file pattern against what an agent can evaluate below the workspace.
func (r *reader) pattern(v value, s string) bool {
	wrong := wrongPattern(s)
	if wrong != "" {
		r.fault(v.token(r), "%s: %q %s", v.path, clip(s), wrong)
	}
	return wrong == ""
}

// wrongPattern says what is wrong with a file pattern, or "".
func wrongPattern(s string) string {
	switch {
	case strings.HasPrefix(s, "!"):
		return "would exclude, which is not built yet: list the files with atoms: {command: …}"
	case path.IsAbs(s):
		return "must be relative to the workspace"
	case slices.Contains(strings.Split(s, "/"), ".."):
		return "must not leave the workspace by .."
	case !doublestar.ValidatePattern(s):
		return "is not a valid pattern: close every [ and {"
	}
	return ""
}

func (r *reader) label(v value, s string) bool {
	if labelText.MatchString(s) {
		return true
	}
	r.fault(v.token(r), "%s cannot be a label: %q: use letters, digits, and _ . : / = - after the first", v.path, clip(s))
	return false
}

func (r *reader) env(v value) map[string]string {
	var env map[string]string
	for _, f := range r.mapping(v, shape{}) {
		switch {
		case !envName.MatchString(f.name):
			r.fault(f.key, "%q in %s cannot name an environment variable: use letters, digits and _, no digit first", clip(f.name), v.path)
			continue
		case strings.HasPrefix(f.name, "TOWPATH_"):
			r.fault(f.key, "%s is set by Towpath: choose a name that does not begin with TOWPATH_", f.path)
			continue
		}
		if s, ok := r.text(f.value); ok {
			if env == nil {
				env = make(map[string]string)
			}
			env[f.name] = s
		}
	}
	return env
}

func (r *reader) parallel(v value) towpath.Parallel {
	var p towpath.Parallel
	for _, f := range r.mapping(v, parallelKeys) {
		switch f.name {
		case "max":
			p.Max = r.number(f.value, 1)
		case "per_agent":
			p.PerAgent = r.number(f.value, 1)
		}
	}
	return p
}

func (r *reader) batch(v value) towpath.Batch {
	switch n := r.resolve(v.node).(type) {
	case *ast.AliasNode:
		return towpath.Batch{}
	case *ast.IntegerNode:
		return towpath.Batch{Count: r.number(v, 1)}
	case *ast.StringNode:
		if n.Value == "auto" {
			return towpath.Batch{}
		}
		if d, err := time.ParseDuration(n.Value); err == nil {
			return towpath.Batch{Target: r.limit(v, d, n.Value)}
		}
	}
	r.wrong(v, "auto, a number of atoms, or "+aDuration)
	return towpath.Batch{}
}

func (r *reader) timeouts(v value, t *towpath.Timeouts) {
	given := make(map[string]value)
	for _, f := range r.mapping(v, timeoutsKeys) {
		d := r.duration(f.value)
		if d == 0 {
			continue
		}
		given[f.name] = f.value
		switch f.name {
		case "queue":
			t.Queue = d
		case "setup":
			t.Setup = d
		case "atom":
			t.Atom = d
		case "silence":
			t.Silence = d
		case "build":
			t.Build = d
		}
	}
	// A phase that is allowed longer than the whole build would end by the build's limit, with the wrong reason.
	for _, phase := range []struct {
		name string
		d    time.Duration
	}{{"queue", t.Queue}, {"setup", t.Setup}, {"atom", t.Atom}, {"silence", t.Silence}} {
		if p, ok := given[phase.name]; ok && phase.d > t.Build {
			r.fault(p.token(r), "%s is %s, longer than the whole build may take (%s): raise timeouts.build", p.path, short(phase.d), short(t.Build))
		}
	}
}

func (r *reader) retries(v value, t *towpath.Retries) {
	for _, f := range r.mapping(v, retriesKeys) {
		switch f.name {
		case "failed":
			t.Failed = r.number(f.value, 0)
		case "lost":
			t.Lost = r.number(f.value, 1)
		}
	}
}

func (r *reader) report(v value) towpath.Report {
	none := towpath.Report{Kind: towpath.ReportNone}
	if r.dangling(v) {
		return none
	}
	if _, ok := r.resolve(v.node).(ast.MapNode); ok {
		faults := len(r.faults)
		fields := r.mapping(v, reportKeys)
		if len(fields) == 0 && len(r.faults) == faults {
			r.fault(v.token(r), `%s is empty: write {junit: "**/report.xml"}`, v.path)
		}
		for _, f := range fields {
			if s, ok := r.line(f.value); ok && r.pattern(f.value, s) {
				return towpath.Report{Kind: towpath.ReportJUnit, Glob: s}
			}
		}
		return none
	}
	names := make([]string, 0, len(reportKinds)+1)
	for _, k := range reportKinds {
		names = append(names, string(k))
	}
	s, ok := r.resolve(v.node).(*ast.StringNode)
	switch {
	case !ok:
		r.wrong(v, listing(names)+`, or {junit: "**/report.xml"}`)
	case slices.Contains(names, s.Value):
		return towpath.Report{Kind: towpath.ReportKind(s.Value)}
	case s.Value == string(towpath.ReportJUnit):
		r.fault(v.token(r), `%s needs to know where the files are: write {junit: "**/report.xml"}`, v.path)
	default:
		near := hint(s.Value, names)
		if near == "" {
			near = ": use " + listing(names) + `, or {junit: "**/report.xml"}`
		}
		r.fault(v.token(r), "%s: unknown format %q%s", v.path, clip(s.Value), near)
	}
	return none
}
