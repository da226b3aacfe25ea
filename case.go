package towpath

import "time"

// Case is the result of one test case as its runner reported it.
type Case struct {
	Name     string        `json:"name"`             // unique within its atom; a repeated name carries #2, #3 … as its runner lists it
	Select   string        `json:"select,omitempty"` // how the runner selects this case again; empty: it cannot
	File     string        `json:"file,omitempty"`
	State    CaseState     `json:"state"`
	Duration time.Duration `json:"duration"`
	Message  string        `json:"message,omitempty"` // one line: why it failed or was skipped
	Detail   string        `json:"detail,omitempty"`  // the failure's text or the case's output, bounded
}

// AtomReport is what one attempt says of one atom. Only a report that was accepted has an effect.
type AtomReport struct {
	Outcome  Outcome       `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`    // one line, for every outcome but passed
	ExitCode int           `json:"exit_code,omitempty"` // -1: ended by a signal
	Duration time.Duration `json:"duration"`
	Cached   bool          `json:"cached,omitempty"` // the runner gave a remembered result: no sample of a duration
	Failed   []string      `json:"failed,omitempty"` // Select of each failed case, if each one has one; else empty: rerun it whole
	Counts   Counts        `json:"counts,omitzero"`  // of its cases, by this attempt
	Cases    []Case        `json:"-"`                // kept beside the event, in the store
}
