package store

import (
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// live is what the writer remembers of the builds it writes to, so that a commit need not read. It is thrown away after
// a failed write and read again from the tables.
type live struct {
	builds map[towpath.BuildNumber]*liveBuild
	fleets map[string]*fleet // by owner
}

type fleet struct {
	num int64 // the owner's; its stream is -num
	seq int64 // the last one written
}

func newLive() live {
	return live{builds: map[towpath.BuildNumber]*liveBuild{}, fleets: map[string]*fleet{}}
}

// liveBuild is the read model of one unfinished build.
type liveBuild struct {
	number     towpath.BuildNumber
	owner      string
	project    string
	job        string
	report     towpath.ReportKind
	quarantine []towpath.Quarantine
	seq        int64 // the last one written
	state      towpath.BuildState
	reason     string
	by         string
	started    time.Time
	finished   time.Time
	deadline   time.Time
	counts     towpath.Counts // of atoms
	cases      towpath.Counts
	bound      time.Duration
	floor      string
	code       towpath.Code
	fixed      time.Duration // of the build's end, not written yet
	atoms      []liveAtom
	attempts   map[towpath.AttemptID]*liveAttempt
	open       int // attempts that have not ended

	touched       bool      // by the commit under way
	now           time.Time // of the last event
	listed        bool      // its atoms are to be inserted
	dirtyAtoms    []int
	dirtyAttempts []*liveAttempt
	learn         []lesson
}

type liveAtom struct {
	name     string
	state    towpath.AtomState
	reason   string
	agent    string
	started  time.Time
	finished time.Time
	duration time.Duration
	verdict  int
	attempts []int
	running  int // units of it in open attempts
	work     *work
	dirty    bool
	settle   bool // its cases are to be counted
}

// work is what is only needed while an atom is unfinished. It is stored with the atom.
type work struct {
	Partial bool        `json:"partial,omitempty"` // not all of its cases were asked for
	Split   int         `json:"split,omitempty"`   // parts
	Reports []reportRef `json:"reports,omitempty"`
}

// reportRef is what is remembered of an accepted report.
type reportRef struct {
	Attempt  int             `json:"attempt"`
	Part     int             `json:"part,omitempty"`
	Outcome  towpath.Outcome `json:"outcome"`
	Cached   bool            `json:"cached,omitempty"`
	Rerun    bool            `json:"rerun,omitempty"` // of some cases only
	Duration time.Duration   `json:"duration"`
	Counts   towpath.Counts  `json:"counts,omitzero"`
}

type liveAttempt struct {
	towpath.AttemptInfo
	partial map[towpath.Unit]bool // units of which only some cases run
	left    map[towpath.Unit]bool // neither reported nor given back
	dirty   bool
}

func (b *liveBuild) touchAtom(i int) *liveAtom {
	a := &b.atoms[i]
	if !a.dirty {
		a.dirty = true
		b.dirtyAtoms = append(b.dirtyAtoms, i)
	}
	if a.work == nil {
		a.work = &work{}
	}
	return a
}

func (b *liveBuild) touchAttempt(id towpath.AttemptID) *liveAttempt {
	a := b.attempts[id]
	if a != nil && !a.dirty {
		a.dirty = true
		b.dirtyAttempts = append(b.dirtyAttempts, a)
	}
	return a
}

// apply follows one event. Events were settled before; one that makes no sense here is passed over, since a list that
// is a little wrong is better than a build that cannot go on.
func (b *liveBuild) apply(e towpath.Event) {
	b.now = e.At
	switch v := e.Body.(type) {
	case towpath.BuildSubmitted:
		b.state, b.by, b.started, b.deadline, b.report = towpath.BuildListing, v.By, e.At, v.Deadline, v.Job.Report.Kind
		b.quarantine = v.Job.Quarantine
	case towpath.AtomsListed:
		b.applyListed(v)
	case towpath.AtomSplit:
		if v.Atom < len(b.atoms) {
			b.touchAtom(v.Atom).work.Split = len(v.Parts)
		}
	case towpath.AttemptOffered:
		b.applyOffered(e.At, v)
	case towpath.AttemptStarted:
		if a := b.touchAttempt(v.Attempt); a != nil {
			a.Started, a.Deadline = e.At, v.Deadline
		}
	case towpath.AtomStarted:
		b.applyAtomStarted(e.At, v)
	case towpath.AtomReported:
		b.applyReported(v)
	case towpath.UnitsRecalled:
		if a := b.attempts[v.Attempt]; a != nil {
			for _, u := range v.Units {
				b.release(a, u)
			}
		}
	case towpath.AttemptEnded:
		b.applyAttemptEnded(e.At, v)
	case towpath.AtomFinished:
		b.applyAtomFinished(e.At, v)
	case towpath.BuildFinished:
		b.state, b.reason, b.finished = v.State, v.Reason, e.At
		b.counts, b.bound, b.floor, b.code, b.fixed = v.Atoms, v.LowerBound, v.Floor, v.Code, v.Fixed
	}
}

func (b *liveBuild) applyListed(v towpath.AtomsListed) {
	b.state, b.listed = towpath.BuildRunning, true
	b.counts.Total = len(v.Atoms)
	b.atoms = make([]liveAtom, len(v.Atoms))
	for i, a := range v.Atoms {
		b.atoms[i] = liveAtom{name: a.Name, state: towpath.AtomPending}
		if len(a.Cases) > 0 {
			b.touchAtom(i).work.Partial = true
		}
	}
}

func (b *liveBuild) applyOffered(at time.Time, v towpath.AttemptOffered) {
	a := &liveAttempt{AttemptInfo: towpath.AttemptInfo{
		Number: v.Number, ID: v.Attempt, Kind: v.Kind, Session: v.Session, Agent: v.Agent, Offered: at, Deadline: v.StartBy,
	}, left: make(map[towpath.Unit]bool, len(v.Units))}
	for _, u := range v.Units {
		if u.Atom >= len(b.atoms) {
			continue
		}
		a.Units = append(a.Units, u.Unit)
		a.left[u.Unit] = true
		if len(u.Cases) > 0 {
			if a.partial == nil {
				a.partial = map[towpath.Unit]bool{}
			}
			a.partial[u.Unit] = true
		}
		atom := b.touchAtom(u.Atom)
		atom.running++
		atom.agent = v.Agent
		if n := len(atom.attempts); n == 0 || atom.attempts[n-1] != v.Number {
			atom.attempts = append(atom.attempts, v.Number)
		}
		if !atom.state.Final() {
			atom.state = towpath.AtomRunning
		}
	}
	b.attempts[v.Attempt] = a
	b.open++
	b.touchAttempt(v.Attempt)
}

func (b *liveBuild) applyAtomStarted(at time.Time, v towpath.AtomStarted) {
	if a := b.attempts[v.Attempt]; a == nil || v.Atom >= len(b.atoms) {
		return
	}
	atom := b.touchAtom(v.Atom)
	if atom.started.IsZero() {
		atom.started = at
	}
}

func (b *liveBuild) applyReported(v towpath.AtomReported) {
	a := b.attempts[v.Attempt]
	if a == nil || v.Atom >= len(b.atoms) {
		return
	}
	atom := b.touchAtom(v.Atom)
	r := v.Report
	atom.work.Reports = append(atom.work.Reports, reportRef{
		Attempt: a.Number, Part: v.Part, Outcome: r.Outcome, Cached: r.Cached, Rerun: a.partial[v.Unit],
		Duration: r.Duration, Counts: r.Counts,
	})
	b.release(a, v.Unit)
}

// release takes a unit out of an attempt. An atom of which nothing runs any more waits again, unless it has its result.
func (b *liveBuild) release(a *liveAttempt, u towpath.Unit) {
	if !a.left[u] {
		return
	}
	delete(a.left, u)
	atom := b.touchAtom(u.Atom)
	atom.running--
	if atom.running == 0 && !atom.state.Final() {
		atom.state = towpath.AtomPending
	}
}

func (b *liveBuild) applyAttemptEnded(at time.Time, v towpath.AttemptEnded) {
	a := b.attempts[v.Attempt]
	if a == nil || !a.Ended.IsZero() {
		return
	}
	b.touchAttempt(v.Attempt)
	for _, u := range a.Units {
		b.release(a, u)
	}
	a.Ended, a.Outcome, a.Lost, a.Reason = at, v.Outcome, v.Lost, v.Reason
	b.open--
}

func (b *liveBuild) applyAtomFinished(at time.Time, v towpath.AtomFinished) {
	if v.Atom >= len(b.atoms) {
		return
	}
	atom := b.touchAtom(v.Atom)
	if atom.state.Final() {
		return
	}
	atom.state, atom.reason, atom.finished = v.State, v.Reason, at
	if a := b.attempts[v.Verdict]; a != nil {
		atom.verdict = a.Number
	}
	b.counts.AddAtom(v.State)
	atom.settle = true
	b.settleAtom(atom, v.NeverSplit)
}

// settleAtom fills in what follows from the reports of an atom that just got its result.
func (b *liveBuild) settleAtom(atom *liveAtom, never bool) {
	w := atom.work
	standing := w.standing()
	sample := (atom.state == towpath.AtomPassed || atom.state == towpath.AtomSkipped) && !w.Partial && len(standing) > 0
	empty := sample
	for _, r := range standing {
		atom.duration += r.Duration
		empty = empty && r.Outcome == towpath.OutcomeSkipped && r.Duration < emptyBelow
		if r.Cached || r.Rerun || r.Outcome != towpath.OutcomePassed && !empty {
			sample = false
		}
	}
	if sample || never {
		l := lesson{atom: atom.name, at: atom.finished, never: never}
		if sample {
			l.took = atom.duration
			if empty {
				l.took = emptySample
			}
		}
		b.learn = append(b.learn, l)
	}
}

// standing are the reports that make up the atom's result: the last whole one, or the last of each part.
func (w *work) standing() []reportRef {
	var parts []reportRef
	for _, r := range slices.Backward(w.Reports) {
		if r.Part == 0 {
			if len(parts) == 0 {
				return []reportRef{r}
			}
			break
		}
		if !slices.ContainsFunc(parts, func(p reportRef) bool { return p.Part == r.Part }) {
			parts = append(parts, r)
		}
	}
	return parts
}

// errored gives the events that end the build for this reason.
func (b *liveBuild) errored(at time.Time, reason string) []towpath.Event {
	var events []towpath.Event
	add := func(body towpath.Body) { events = append(events, towpath.Event{Build: b.number, At: at, Body: body}) }
	open := make([]*liveAttempt, 0, b.open)
	for _, a := range b.attempts {
		if a.Ended.IsZero() {
			open = append(open, a)
		}
	}
	slices.SortFunc(open, func(x, y *liveAttempt) int { return x.Number - y.Number })
	for _, a := range open {
		add(towpath.AttemptEnded{Attempt: a.ID, Session: a.Session, Outcome: towpath.OutcomeErrored, Lost: true, Reason: reason})
	}
	counts := b.counts
	for i := range b.atoms {
		if !b.atoms[i].state.Final() {
			add(towpath.AtomFinished{Atom: i, State: towpath.AtomCanceled, Reason: reason})
			counts.AddAtom(towpath.AtomCanceled)
		}
	}
	add(towpath.BuildFinished{State: towpath.BuildErrored, Reason: reason, Code: towpath.CodeUnavailable, Atoms: counts, LowerBound: b.bound})
	return events
}
