package towpath

import "time"

// Owner is a process that decides for its builds. Whether it lives is told by its lock file, not by what is stored.
type Owner struct {
	ID      string    `json:"id"` // random, never reused
	PID     int       `json:"pid"`
	Socket  string    `json:"socket,omitempty"` // where it serves the API
	Started time.Time `json:"started"`
}

// BuildInfo is one build as lists and pages show it.
type BuildInfo struct {
	Number     BuildNumber   `json:"build"`
	Project    string        `json:"project"`
	Job        string        `json:"job"`
	State      BuildState    `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	Code       Code          `json:"code,omitempty"` // of an errored build: who must act, as in BuildFinished
	By         string        `json:"by,omitempty"`
	Owner      Owner         `json:"owner"`
	Started    time.Time     `json:"started"`
	Finished   time.Time     `json:"finished,omitzero"`
	Deadline   time.Time     `json:"deadline"`
	Atoms      Counts        `json:"atoms"`
	Cases      Counts        `json:"cases"`
	LowerBound time.Duration `json:"lower_bound"`     // nanoseconds
	Floor      string        `json:"floor,omitempty"` // the atom whose own duration is the bound
}

// BuildFilter chooses builds, newest first. The zero value is the newest 100.
type BuildFilter struct {
	Project    string
	Job        string
	State      BuildState
	Unfinished bool
	Before     BuildNumber // only older ones than this: the next page
	Limit      int         // 100 if 0
}

// AtomInfo is one atom of a build.
type AtomInfo struct {
	Index    int           `json:"index"`
	Name     string        `json:"name"`
	State    AtomState     `json:"state"`
	Reason   string        `json:"reason,omitempty"`
	Agent    string        `json:"agent,omitempty"` // which ran it last
	Started  time.Time     `json:"started,omitzero"`
	Finished time.Time     `json:"finished,omitzero"`
	Duration time.Duration `json:"duration"`           // by the report that stands; the sum of the parts if it was split
	Verdict  int           `json:"verdict,omitempty"`  // number of the attempt whose report stands
	Attempts []int         `json:"attempts,omitempty"` // numbers of all attempts that were offered it
}

// AttemptInfo is one attempt of a build.
type AttemptInfo struct {
	Number   int         `json:"number"`
	ID       AttemptID   `json:"id"`
	Kind     AttemptKind `json:"kind"`
	Session  SessionID   `json:"session"`
	Agent    string      `json:"agent"`
	Units    []Unit      `json:"units,omitempty"`
	Outcome  Outcome     `json:"outcome,omitempty"` // "" while it runs
	Lost     bool        `json:"lost,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Offered  time.Time   `json:"offered"`
	Started  time.Time   `json:"started,omitzero"`
	Deadline time.Time   `json:"deadline,omitzero"`
	Ended    time.Time   `json:"ended,omitzero"`
}

// CaseInfo is what finally stands for one case of a build.
type CaseInfo struct {
	AtomIndex int    `json:"-"`
	Atom      string `json:"atom"`
	Attempts  int    `json:"attempts"` // reports that named it
	Case
}

// PastCase is the result of a case in one build.
type PastCase struct {
	Build    BuildNumber   `json:"build"`
	At       time.Time     `json:"at"`
	State    CaseState     `json:"state"`
	Duration time.Duration `json:"duration"`
	Message  string        `json:"message,omitempty"`
}

// NumberedEvent is an event with its place in its stream, from 1.
type NumberedEvent struct {
	Seq   int64 `json:"seq"`
	Event Event `json:"event"`
}

// LogQuery chooses log streams of a build. The zero value is all of them, in the order of attempts, then of units.
type LogQuery struct {
	Attempt int    // number of an attempt; 0: all
	Atom    string // only streams of this atom
	Offset  int64  // skip what lies before; only sensible with one stream
}

// LogPiece is a piece of one log stream: of a unit of an attempt, or of the attempt itself.
type LogPiece struct {
	Attempt int    `json:"attempt"` // its number
	Unit    int    `json:"unit"`    // index into the attempt's units; -1: the attempt itself
	Atom    string `json:"atom,omitempty"`
	Offset  int64  `json:"offset"`        // of the first byte of Data in the stream
	Gap     int64  `json:"gap,omitempty"` // bytes before Offset that were cut
	Data    []byte `json:"data"`
}
