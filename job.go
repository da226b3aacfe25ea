package towpath

import "time"

// Job is one checked job: what towpath.yaml (or recognition, or the command line) describes under one name, with every
// default filled in. It travels with the submission, the offers and the event log as JSON.
type Job struct {
	Name       string            `json:"name"`
	Atoms      AtomSource        `json:"atoms"`
	Setup      string            `json:"setup,omitempty"`    // shell text, once per build and session
	Run        string            `json:"run,omitempty"`      // shell text; the atoms are its arguments
	Argv       []string          `json:"argv,omitempty"`     // instead of Run: executed without a shell; "{}" in a word becomes the atom
	Teardown   string            `json:"teardown,omitempty"` // shell text, once per build and session, after everything else
	Env        map[string]string `json:"env,omitempty"`
	Secrets    []string          `json:"secrets,omitempty"`
	Labels     []string          `json:"labels,omitempty"` // an agent must carry all of them
	Slots      int               `json:"slots"`            // slots that one attempt occupies, at least 1
	Parallel   Parallel          `json:"parallel,omitzero"`
	Batch      Batch             `json:"batch,omitzero"`
	Timeouts   Timeouts          `json:"timeouts"`
	Retries    Retries           `json:"retries"`
	FailFast   bool              `json:"fail_fast,omitempty"`
	Quarantine []Quarantine      `json:"quarantine,omitempty"`
	Report     Report            `json:"report,omitzero"`
	Artifacts  []string          `json:"artifacts,omitempty"`
	AllowEmpty bool              `json:"allow_empty,omitempty"`
	Split      bool              `json:"split,omitempty"`    // Go: also split packages that have a TestMain
	PerAtom    bool              `json:"per_atom,omitempty"` // the command starts once per atom, so unstarted atoms can be recalled
}

// AtomSource says where the list of atoms comes from: exactly one of its fields is set.
type AtomSource struct {
	Command string   `json:"command,omitempty"` // shell text, run by an agent; one atom a line
	Glob    []string `json:"glob,omitempty"`    // patterns with **, evaluated by an agent, results sorted
	List    []string `json:"list,omitempty"`
}

// Parallel bounds how many attempts of a build run at once. Zero means no bound.
type Parallel struct {
	Max      int `json:"max,omitempty"`
	PerAgent int `json:"per_agent,omitempty"`
}

// Batch says how many atoms make a subjob. The zero value is "auto": sized by what the atoms took before.
type Batch struct {
	Count  int           `json:"count,omitempty"`  // exactly so many atoms
	Target time.Duration `json:"target,omitempty"` // atoms that together take about so long
}

// Timeouts are the limits of the phases of a build. All are absolute once begun. Zero Atom means the learned limit.
type Timeouts struct {
	Queue   time.Duration `json:"queue"`          // no matching session
	Setup   time.Duration `json:"setup"`          // listing, setup and teardown, each
	Atom    time.Duration `json:"atom,omitempty"` // one atom
	Silence time.Duration `json:"silence"`        // no output and no test event
	Build   time.Duration `json:"build"`          // from submission to the end
}

// Retries bounds reruns. Failed reruns tell a flaky atom from a broken one; lost ones replace attempts whose worker went away.
type Retries struct {
	Failed int `json:"failed"`
	Lost   int `json:"lost"` // losses charged to an atom before it is lost; 3 by default
}

// Quarantine names atoms, or cases as ATOM::CASE, by a pattern in which * stands for any text and a trailing /... for
// everything below. After Until the entry no longer counts.
type Quarantine struct {
	Pattern string    `json:"pattern"`
	Owner   string    `json:"owner,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// ReportKind names the format in which the command says what its cases did.
type ReportKind string

// The report kinds. Those named after a runner also know how to reach it: what it must be given, how it selects cases,
// and which of its exit codes mean what.
const (
	ReportNone    ReportKind = "none"   // the exit status is the atom's only result
	ReportGoTest  ReportKind = "gotest" // go test -json on standard output
	ReportJUnit   ReportKind = "junit"  // files that match Report.Glob
	ReportTAP     ReportKind = "tap"    // Test Anything Protocol on standard output
	ReportPytest  ReportKind = "pytest"
	ReportJest    ReportKind = "jest"
	ReportVitest  ReportKind = "vitest"
	ReportNode    ReportKind = "node" // node --test
	ReportRSpec   ReportKind = "rspec"
	ReportPHPUnit ReportKind = "phpunit"
	ReportCargo   ReportKind = "cargo"
)

// Report says what Job.Run leaves behind about its cases.
type Report struct {
	Kind ReportKind `json:"kind,omitempty"`
	Glob string     `json:"glob,omitempty"` // with ReportJUnit; relative to the workspace
}
