package towpath

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Event is one fact that the decider settled. Events of a build form its stream, those with Build 0 the fleet's.
type Event struct {
	Build BuildNumber
	At    time.Time
	Body  Body
}

// Body is the content of an event. Each kind is one exported struct below.
type Body interface{ body() }

// BuildSubmitted begins a build's stream.
type BuildSubmitted struct {
	Job      Job         `json:"job"`
	Only     []Selection `json:"only,omitempty"`
	By       string      `json:"by,omitempty"`
	Deadline time.Time   `json:"deadline"` // of the whole build
	// Fixed is what a subjob of this job cost before its first atom began, by earlier builds; 0: unknown.
	Fixed time.Duration `json:"fixed,omitempty"`
}

// AtomsListed fixes the atoms of a build, in order; their index is how all later events name them.
type AtomsListed struct {
	Atoms []ListedAtom `json:"atoms"`
}

// ListedAtom is one atom with what was known of it when it was listed.
type ListedAtom struct {
	Name     string   `json:"name"`
	Cases    []string `json:"cases,omitempty"`
	Estimate Estimate `json:"estimate,omitzero"`
}

// AtomSplit says that an atom is run in parts.
type AtomSplit struct {
	Atom  int    `json:"atom"`
	Parts []Part `json:"parts"`
}

// AttemptOffered says that an attempt was created and offered to a session.
type AttemptOffered struct {
	Attempt AttemptID     `json:"attempt"`
	Number  int           `json:"number"`
	Kind    AttemptKind   `json:"kind"`
	Session SessionID     `json:"session"`
	Agent   string        `json:"agent"`
	Units   []OfferedUnit `json:"units,omitempty"`
	Limit   time.Duration `json:"limit,omitempty"`
	StartBy time.Time     `json:"start_by"`
}

// AttemptStarted says that its session began it.
type AttemptStarted struct {
	Attempt  AttemptID `json:"attempt"`
	Deadline time.Time `json:"deadline"`
}

// AtomStarted says that an attempt began a unit.
type AtomStarted struct {
	Attempt AttemptID `json:"attempt"`
	Unit
}

// AtomReported is an accepted report.
type AtomReported struct {
	Attempt AttemptID `json:"attempt"`
	Unit
	Report      AtomReport `json:"report"`
	Quarantined bool       `json:"quarantined,omitempty"` // each case that failed was in quarantine then
}

// RecallAsked says that units of a running attempt were asked back. It lapses at By.
type RecallAsked struct {
	Attempt AttemptID `json:"attempt"`
	Session SessionID `json:"session"`
	Most    int       `json:"most"`
	By      time.Time `json:"by"`
}

// UnitsRecalled says that an attempt gave these units back.
type UnitsRecalled struct {
	Attempt AttemptID `json:"attempt"`
	Units   []Unit    `json:"units"`
}

// AttemptStopped says that a running attempt was told to end, and by when it must have.
type AttemptStopped struct {
	Attempt AttemptID `json:"attempt"`
	Session SessionID `json:"session"`
	Cause   StopCause `json:"cause"`
	Reason  string    `json:"reason"`
	By      time.Time `json:"by"`
}

// StopCause says why an attempt was told to end.
type StopCause string

// The causes.
const (
	StopCanceled StopCause = "canceled"  // its build ended before it
	StopFailFast StopCause = "fail_fast" // another atom failed
	StopUnneeded StopCause = "unneeded"  // nothing is left for it to do
	StopLimit    StopCause = "limit"     // it ran past its own limit
)

// AttemptEnded says that an attempt is over. Units of it without an accepted report wait again, or were charged a loss.
type AttemptEnded struct {
	Attempt   AttemptID `json:"attempt"`
	Session   SessionID `json:"session"`
	Outcome   Outcome   `json:"outcome"`
	Lost      bool      `json:"lost,omitempty"`      // its session went away
	Expired   bool      `json:"expired,omitempty"`   // its session did not begin it, or not in time
	Abandoned bool      `json:"abandoned,omitempty"` // it did not end when told to; its slots stay taken
	Reason    string    `json:"reason,omitempty"`
}

// AtomFinished gives an atom its one final result.
type AtomFinished struct {
	Atom   int       `json:"atom"`
	State  AtomState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	// Verdict is the report that stands for the atom: the attempt that brought it, "" if none did.
	Verdict    AttemptID `json:"verdict,omitempty"`
	NeverSplit bool      `json:"never_split,omitempty"` // its parts could not stand for it: never split it again
}

// TeardownBegan says that every atom of a build has its result and that its teardowns run. The build ends at By at the
// latest.
type TeardownBegan struct {
	By time.Time `json:"by"`
}

// BuildFinished ends a build's stream, but for attempts that still wind down.
type BuildFinished struct {
	State      BuildState    `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	Code       Code          `json:"code,omitempty"` // of an errored build: CodeConfig if its job is at fault (no atoms, listing failed, setup failed), CodeUnavailable if workers or time were
	Atoms      Counts        `json:"atoms"`
	LowerBound time.Duration `json:"lower_bound"`          // no schedule on these slots could have been shorter
	Floor      string        `json:"floor,omitempty"`      // the atom whose own duration is that bound
	Fixed      time.Duration `json:"fixed,omitempty"`      // what a subjob costs before its first atom begins, for later builds; 0: unknown
	TeardownBy time.Time     `json:"teardown_by,omitzero"` // teardowns that are still to come are given up then
}

// SessionOpened begins a session.
type SessionOpened struct {
	Session SessionID `json:"session"`
	Agent   string    `json:"agent"`
	Slots   int       `json:"slots"`
	Labels  []string  `json:"labels,omitempty"`
	Speed   float64   `json:"speed,omitempty"`
	Class   string    `json:"class,omitempty"`
}

// SessionDraining says that a session gets no more offers.
type SessionDraining struct {
	Session SessionID `json:"session"`
}

// SessionEnded ends a session for good.
type SessionEnded struct {
	Session SessionID `json:"session"`
	Lost    bool      `json:"lost,omitempty"`
	Reason  string    `json:"reason"`
}

// TeardownGivenUp says that teardowns of a finished build which had not begun in time will not be.
type TeardownGivenUp struct{}

// SlotsFreed says that an attempt which had been abandoned has ended after all.
type SlotsFreed struct {
	Session SessionID `json:"session"`
	Attempt AttemptID `json:"attempt"`
}

func (BuildSubmitted) body()  {}
func (AtomsListed) body()     {}
func (AtomSplit) body()       {}
func (AttemptOffered) body()  {}
func (AttemptStarted) body()  {}
func (AtomStarted) body()     {}
func (AtomReported) body()    {}
func (RecallAsked) body()     {}
func (UnitsRecalled) body()   {}
func (AttemptStopped) body()  {}
func (AttemptEnded) body()    {}
func (AtomFinished) body()    {}
func (BuildFinished) body()   {}
func (SessionOpened) body()   {}
func (SessionDraining) body() {}
func (SessionEnded) body()    {}
func (TeardownBegan) body()   {}
func (TeardownGivenUp) body() {}
func (SlotsFreed) body()      {}

// bodies maps the stored name of each kind of event to its type. A name, once released, keeps its meaning.
var bodies = map[string]reflect.Type{
	"build_submitted":   reflect.TypeFor[BuildSubmitted](),
	"atoms_listed":      reflect.TypeFor[AtomsListed](),
	"atom_split":        reflect.TypeFor[AtomSplit](),
	"attempt_offered":   reflect.TypeFor[AttemptOffered](),
	"attempt_started":   reflect.TypeFor[AttemptStarted](),
	"atom_started":      reflect.TypeFor[AtomStarted](),
	"atom_reported":     reflect.TypeFor[AtomReported](),
	"recall_asked":      reflect.TypeFor[RecallAsked](),
	"units_recalled":    reflect.TypeFor[UnitsRecalled](),
	"attempt_stopped":   reflect.TypeFor[AttemptStopped](),
	"attempt_ended":     reflect.TypeFor[AttemptEnded](),
	"atom_finished":     reflect.TypeFor[AtomFinished](),
	"build_finished":    reflect.TypeFor[BuildFinished](),
	"session_opened":    reflect.TypeFor[SessionOpened](),
	"session_draining":  reflect.TypeFor[SessionDraining](),
	"session_ended":     reflect.TypeFor[SessionEnded](),
	"teardown_began":    reflect.TypeFor[TeardownBegan](),
	"teardown_given_up": reflect.TypeFor[TeardownGivenUp](),
	"slots_freed":       reflect.TypeFor[SlotsFreed](),
}

var bodyNames = func() map[reflect.Type]string {
	names := make(map[reflect.Type]string, len(bodies))
	for name, t := range bodies {
		names[t] = name
	}
	return names
}()

type storedEvent struct {
	Build BuildNumber     `json:"build,omitempty"`
	At    time.Time       `json:"at"`
	Type  string          `json:"type"`
	Body  json.RawMessage `json:"body"`
}

// MarshalJSON writes the form in which events are stored.
func (e Event) MarshalJSON() ([]byte, error) {
	name, ok := bodyNames[reflect.TypeOf(e.Body)]
	if !ok {
		return nil, fmt.Errorf("marshal event: unknown body %T", e.Body)
	}
	body, err := json.Marshal(e.Body)
	if err != nil {
		return nil, fmt.Errorf("marshal event %s: %w", name, err)
	}
	return json.Marshal(storedEvent{e.Build, e.At, name, body})
}

// UnmarshalJSON reads what MarshalJSON wrote. A kind it does not know is an error: a newer Towpath wrote it.
func (e *Event) UnmarshalJSON(data []byte) error {
	var s storedEvent
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("unmarshal event: %w", err)
	}
	t, ok := bodies[s.Type]
	if !ok {
		return fmt.Errorf("unmarshal event: unknown type %q, written by a newer version", s.Type)
	}
	v := reflect.New(t)
	if err := json.Unmarshal(s.Body, v.Interface()); err != nil {
		return fmt.Errorf("unmarshal event %s: %w", s.Type, err)
	}
	body, ok := reflect.TypeAssert[Body](v.Elem())
	if !ok {
		return fmt.Errorf("unmarshal event: %s is no body", t)
	}
	*e = Event{Build: s.Build, At: s.At, Body: body}
	return nil
}
