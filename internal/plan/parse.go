package plan

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/towpath/towpath"
)

// The keys of the file. What is not built yet is refused by its name, so that nobody believes it to be in force.
var (
	topKeys      = shape{keys: []string{"version", "jobs"}}
	jobKeys      = shape{keys: slices.Sorted(maps.Keys(jobFields)), later: laterKeys, meant: jobMeant, must: "a mapping with atoms and run"}
	laterKeys    = []string{"artifacts", "executor", "group", "limits", "outputs", "priority", "schedule", "secrets", "setup_shared", "workspace"}
	atomsKeys    = shape{keys: []string{"command", "glob", "list"}, later: []string{"objects", "queue"}}
	parallelKeys = shape{keys: []string{"max", "per_agent"}}
	timeoutsKeys = shape{keys: []string{"queue", "setup", "atom", "silence", "build"}}
	retriesKeys  = shape{keys: []string{"failed", "lost"}}
	reportKeys   = shape{keys: []string{"junit"}}
	entryKeys    = shape{keys: []string{"pattern", "owner", "until"}, meant: entryMeant}
)

// What is often written instead of a key.
var (
	jobMeant   = map[string]string{"environment": "env", "timeout": "timeouts", "retry": "retries", "script": "run", "tests": "atoms"}
	entryMeant = map[string]string{"atom": "pattern", "case": "pattern", "name": "pattern", "expires": "until"}
)

// homes says where a key belongs that is often written one level too high or too low.
var homes = map[string]string{
	"command": "atoms", "glob": "atoms", "list": "atoms",
	"max": "parallel", "per_agent": "parallel",
	"queue": "timeouts", "silence": "timeouts", "atom": "timeouts", "build": "timeouts",
	"failed": "retries", "lost": "retries", "junit": "report",
	"run": "a job", "atoms": "a job", "env": "a job", "batch": "a job", "report": "a job", "timeouts": "a job",
	"retries": "a job", "parallel": "a job", "labels": "a job", "quarantine": "a job",
}

var jobName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// Defaults returns a job with every default filled in, which lacks only its name, its atoms and its command.
func Defaults() towpath.Job {
	return towpath.Job{
		Slots: 1,
		Timeouts: towpath.Timeouts{
			Queue:   10 * time.Minute,
			Setup:   10 * time.Minute,
			Silence: 5 * time.Minute,
			Build:   time.Hour,
		},
		Retries: towpath.Retries{Failed: 0, Lost: 3},
		Report:  towpath.Report{Kind: towpath.ReportNone},
	}
}

// Parse checks a towpath.yaml. The name is only for messages. The error, if any, names every fault of the file, one a line.
func Parse(file string, data []byte) (*File, error) {
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	if root == nil || root.Type() == ast.NullType {
		return nil, towpath.Errorf(towpath.CodeConfig, "%s is empty: write one with towpath init", file)
	}
	r := newReader(file, root)
	f := r.document(root)
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

func (r *reader) document(root ast.Node) *File {
	f := &File{Name: r.file, Jobs: make(map[string]towpath.Job)}
	top := value{node: root}
	if _, ok := r.resolve(root).(ast.MapNode); !ok {
		r.fault(top.token(r), "the file must be a mapping with version and jobs, not %s", r.describe(root))
		return f
	}
	var versioned, jobs bool
	for _, v := range r.mapping(top, shape{}) {
		switch {
		case v.name == "version":
			versioned = true
			r.version(v.value)
		case v.name == "jobs":
			jobs = true
			r.jobs(v.value, f)
		case len(v.name) > 2 && v.name[:2] == "x-": // a place for anchors
		default:
			r.unknown("", v, topKeys)
			jobs = jobs || nearest(v.name, topKeys.keys) == "jobs"
		}
	}
	if !versioned {
		r.fault(top.token(r), "there is no version: begin the file with version: 1")
	}
	if !jobs {
		r.fault(top.token(r), "there are no jobs: add jobs: and below it a job with atoms and run")
	}
	return f
}

func (r *reader) version(v value) {
	n, ok := r.resolve(v.node).(*ast.IntegerNode)
	if !ok {
		r.wrong(v, "1")
		return
	}
	if i, ok := whole(n); !ok || i != 1 {
		r.fault(v.token(r), "version must be 1, not %s: a later version needs a later towpath", clip(n.GetToken().Value))
	}
}

func (r *reader) jobs(v value, f *File) {
	faults := len(r.faults)
	entries := r.mapping(v, shape{})
	if len(entries) == 0 && len(r.faults) == faults {
		r.fault(v.token(r), "jobs is empty: it needs a job with atoms and run")
	}
	for _, e := range entries {
		if !jobName.MatchString(e.name) {
			r.fault(e.key, "%q cannot name a job: use letters, digits, and _ . - after the first", clip(e.name))
			continue
		}
		f.Jobs[e.name] = r.job(e.name, e.value)
		f.Order = append(f.Order, e.name)
	}
}
