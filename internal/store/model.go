package store

import (
	"time"

	"github.com/towpath/towpath"
)

// Reservation asks for a build number.
type Reservation struct {
	Owner   string
	Project string // names the project among all on this machine or server; durations and histories are kept per project and job
	Job     string
	At      time.Time
}

// Batch is what one decision round leaves to be remembered. Commit stores all of it or nothing.
type Batch struct {
	Owner  string
	Events []towpath.Event
	Cases  []AttemptCases
	Logs   []LogChunk
	// Released are finished builds of which nothing winds down any more: a replay leaves them out.
	Released []towpath.BuildNumber
}

// AttemptCases are the cases of one accepted report.
type AttemptCases struct {
	Build   towpath.BuildNumber
	Attempt towpath.AttemptID
	Atom    int
	Part    int
	Cases   []towpath.Case
}

// MaxChunk is the most bytes that one LogChunk should hold.
const MaxChunk = 256 << 10

// Whole is the unit of a log stream that belongs to an attempt as a whole.
const Whole = -1

// LogChunk is a piece of one log stream: of a unit of an attempt, by its position there, or of the attempt itself (Whole).
type LogChunk struct {
	Build   towpath.BuildNumber
	Attempt towpath.AttemptID
	Unit    int
	Offset  int64 // of the first byte of Data in the stream
	Gap     int64 // bytes before Offset that were cut
	Data    []byte

	packed []byte // Data as it is stored, if PackLogs was called
}

// OwnedBuild is an unfinished build and who owns it. State is "" if only its number was taken.
type OwnedBuild struct {
	Build towpath.BuildNumber
	State towpath.BuildState
	Owner towpath.Owner
}
