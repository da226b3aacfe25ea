package towpath

import "time"

// Command is what a session is told after events were stored.
type Command interface{ command() }

// Unit is what a subjob is made of: an atom, or one part of a split atom (Part is 0 for a whole one).
type Unit struct {
	Atom int `json:"atom"`
	Part int `json:"part,omitempty"`
}

// OfferedUnit is a unit with all that an agent must know of it.
type OfferedUnit struct {
	Unit
	Name  string        `json:"name"`
	Cases []string      `json:"cases,omitempty"` // not empty: only these cases
	Split *Part         `json:"split,omitempty"`
	Fresh bool          `json:"fresh,omitempty"` // it failed before in this build: a result that its runner remembers will not do
	Limit time.Duration `json:"limit"`           // a command for several units has the sum of their limits
}

// Offer asks a session to execute an attempt. It may be delivered twice and is started once, by its attempt id.
type Offer struct {
	Session SessionID
	Attempt AttemptID
	Build   BuildNumber
	Number  int // of this attempt within its build, from 1
	Kind    AttemptKind
	Job     *Job
	Units   []OfferedUnit // of an AttemptRun
	Limit   time.Duration // of an AttemptList, AttemptSetup or AttemptTeardown
}

// Stop asks a session to end an attempt: its processes are terminated, then killed, and Done follows.
type Stop struct {
	Session SessionID
	Attempt AttemptID
	Reason  string
}

// Recall asks a session to give back up to Most units of an attempt that have not begun. No answer means none.
type Recall struct {
	Session SessionID
	Attempt AttemptID
	Most    int
}

func (Offer) command()  {}
func (Stop) command()   {}
func (Recall) command() {}
