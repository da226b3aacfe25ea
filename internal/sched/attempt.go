package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// attempt is one execution that was offered and has not ended, or was abandoned.
type attempt struct {
	id      towpath.AttemptID
	number  int
	kind    towpath.AttemptKind
	build   *build
	bind    *binding
	sess    *session
	slots   int
	limit   time.Duration
	units   []towpath.Unit // of a run
	suspect bool           // it carries a unit that is charged with a loss
	offered time.Time

	startBy  time.Time
	started  bool
	since    time.Time // it started
	deadline time.Time
	began    int // units that have begun
	reported int
	took     time.Duration // what its units took, by their results
	left     int           // units without a result that are still its own
	restN    int           // of those, the ones that have not begun
	restSum  time.Duration // and their estimates

	stopBy     time.Time // zero: it was not told to end
	stopCause  towpath.StopCause
	stopReason string
	abandoned  bool
	over       bool

	recallBy time.Time
	recalls  int // asked and not answered
}

func (a *attempt) stopping() bool { return !a.stopBy.IsZero() }

// ends gives the time at which something happens to the attempt by itself.
func (a *attempt) ends() time.Time {
	switch {
	case a.abandoned:
		return time.Time{}
	case a.stopping():
		return a.stopBy
	case !a.started:
		return a.startBy
	}
	return a.deadline
}

// expire does what an attempt's deadline says.
func (s *State) expire(now time.Time, a *attempt) {
	n := a.build.number
	switch {
	case a.abandoned:
	case !a.started:
		s.emit(now, n, towpath.AttemptEnded{
			Attempt: a.id, Session: a.sess.id, Outcome: towpath.OutcomeErrored, Expired: true,
			Reason: fmt.Sprintf("worker %s did not begin it within %s", a.sess.agent, short(s.cfg.OfferExpiry)),
		})
	case a.stopping():
		s.emit(now, n, towpath.AttemptEnded{
			Attempt: a.id, Session: a.sess.id, Outcome: towpath.OutcomeErrored, Abandoned: true,
			Reason: fmt.Sprintf("worker %s did not end it when told to (%s); its slots stay taken", a.sess.agent, a.stopReason),
		})
	default:
		s.stop(now, a, towpath.StopLimit, fmt.Sprintf("%s ran past its limit of %s", a.what(), short(a.limit)))
	}
}

func (a *attempt) what() string {
	switch a.kind {
	case towpath.AttemptList:
		return "listing the atoms"
	case towpath.AttemptSetup:
		return "setup"
	case towpath.AttemptTeardown:
		return "teardown"
	case towpath.AttemptRun:
	}
	if len(a.units) == 1 {
		return a.build.atoms[a.units[0].Atom].name
	}
	return fmt.Sprintf("a batch of %d atoms", len(a.units))
}

// stop tells an attempt to end. It never lengthens what the attempt has left: one that was not begun keeps the end of
// its offer, and a second stop changes nothing.
func (s *State) stop(now time.Time, a *attempt, cause towpath.StopCause, reason string) {
	if a.stopping() && s.bug != bugStopAgain {
		return
	}
	by := now.Add(s.cfg.StopGrace)
	if !a.started && a.startBy.Before(by) {
		by = a.startBy
	}
	s.emit(now, a.build.number, towpath.AttemptStopped{Attempt: a.id, Session: a.sess.id, Cause: cause, Reason: reason, By: by})
}

// begin notes that an attempt was begun. A word from it that comes before its Started says the same.
func (s *State) begin(now time.Time, a *attempt) {
	if a.started {
		return
	}
	s.emit(now, a.build.number, towpath.AttemptStarted{Attempt: a.id, Deadline: now.Add(a.limit + s.cfg.StopGrace)})
}

// own finds the attempt of which a session speaks. A nil attempt and no error means that it is over: the word comes
// late, or twice, and is acknowledged without effect.
func (s *State) own(now time.Time, id towpath.SessionID, n towpath.AttemptID) (*attempt, error) {
	x, err := s.liveSession(now, id)
	if err != nil {
		return nil, err
	}
	a := s.attempts[n]
	if a == nil {
		return nil, nil
	}
	if a.sess != x && s.bug != bugForeignReport {
		return nil, towpath.Errorf(towpath.CodeConflict, "attempt %s was offered to another session than %s", n, id)
	}
	return a, nil
}

func (s *State) started(now time.Time, in towpath.Started) error {
	a, err := s.own(now, in.Session, in.Attempt)
	if err != nil {
		return err
	}
	if a == nil || a.abandoned {
		return towpath.Errorf(towpath.CodeConflict, "attempt %s is over: it was not begun in time, or has ended; give it up", in.Attempt)
	}
	s.begin(now, a)
	return nil
}

func (s *State) atomBegan(now time.Time, in towpath.AtomBegan) error {
	a, err := s.own(now, in.Session, in.Attempt)
	if err != nil || a == nil || a.abandoned {
		return err
	}
	w := towpath.Unit{Atom: in.Atom, Part: in.Part}
	u := a.build.unit(w)
	if u == nil || u.attempt != a || u.began {
		return nil
	}
	s.begin(now, a)
	s.emit(now, a.build.number, towpath.AtomStarted{Attempt: a.id, Unit: w})
	return nil
}

func (s *State) atomDone(now time.Time, in towpath.AtomDone) error {
	a, err := s.own(now, in.Session, in.Attempt)
	if err != nil || a == nil || a.abandoned {
		return err
	}
	w := towpath.Unit{Atom: in.Atom, Part: in.Part}
	b := a.build
	u := b.unit(w)
	if u == nil || u.attempt != a && s.bug != bugDoubleReport || b.state.Final() {
		return nil
	}
	s.begin(now, a)
	e := towpath.AtomReported{Attempt: a.id, Unit: w, Report: in.Report}
	e.Report.Duration = max(0, e.Report.Duration)
	e.Quarantined = b.quarantines(b.atoms[w.Atom], &e.Report)
	s.emit(now, b.number, e)
	return nil
}

func (s *State) recalled(now time.Time, in towpath.Recalled) error {
	a, err := s.own(now, in.Session, in.Attempt)
	if err != nil || a == nil || a.abandoned {
		return err
	}
	var back []towpath.Unit
	for _, w := range in.Units {
		if u := a.build.unit(w); u != nil && u.attempt == a && (!u.began || s.bug == bugRecallBegun) &&
			!slices.Contains(back, w) {
			back = append(back, w)
		}
	}
	if len(back) == 0 && a.recallBy.IsZero() {
		return nil
	}
	s.emit(now, a.build.number, towpath.UnitsRecalled{Attempt: a.id, Units: back})
	return nil
}

func (s *State) done(now time.Time, in towpath.Done) error {
	a, err := s.own(now, in.Session, in.Attempt)
	if err != nil || a == nil {
		return err
	}
	if a.abandoned {
		s.emit(now, 0, towpath.SlotsFreed{Session: a.sess.id, Attempt: a.id})
		return nil
	}
	b := a.build
	if !a.started && (in.Outcome == towpath.OutcomeErrored || in.Outcome == towpath.OutcomeCanceled) {
		// It did not take the offer: that is no fault of what was offered.
		s.emit(now, b.number, towpath.AttemptEnded{
			Attempt: a.id, Session: a.sess.id, Outcome: in.Outcome, Expired: true,
			Reason: fmt.Sprintf("worker %s did not begin it: %s", a.sess.agent, either(oneLine(in.Reason), string(in.Outcome))),
		})
		return nil
	}
	s.begin(now, a)
	s.emit(now, b.number, towpath.AttemptEnded{Attempt: a.id, Session: a.sess.id, Outcome: in.Outcome, Reason: in.Reason})
	if a.kind == towpath.AttemptList && !b.state.Final() {
		s.listed(now, b, a, in)
	}
	return nil
}

// listed turns the end of a listing into the atoms of its build.
func (s *State) listed(now time.Time, b *build, a *attempt, in towpath.Done) {
	if in.Outcome != towpath.OutcomePassed {
		reason := in.Reason
		if a.stopCause == towpath.StopLimit {
			reason = a.stopReason
		}
		if reason == "" {
			reason = "outcome " + string(in.Outcome)
		}
		s.finish(now, b, errored(towpath.CodeConfig, fmt.Sprintf("listing the atoms failed on %s: %s", a.sess.agent, reason)))
		return
	}
	atoms := make([]towpath.ListedAtom, len(in.Atoms))
	for i, name := range in.Atoms {
		atoms[i] = towpath.ListedAtom{Name: name, Estimate: in.Estimates[name]}
	}
	s.list(now, b, atoms)
}

// nothingListed says where atoms were looked for.
func nothingListed(job *towpath.Job) string {
	switch {
	case job.Atoms.Command != "":
		return fmt.Sprintf("the command %q printed none", job.Atoms.Command)
	case len(job.Atoms.Glob) > 0:
		return "no file matches " + strings.Join(job.Atoms.Glob, ", ")
	}
	return "the list is empty"
}

// list fixes the atoms of a build, or ends it if they cannot be used.
func (s *State) list(now time.Time, b *build, atoms []towpath.ListedAtom) {
	seen := make(map[string]bool, len(atoms))
	for _, a := range atoms {
		switch {
		case a.Name == "":
			s.finish(now, b, errored(towpath.CodeConfig, "an atom without a name was listed"))
			return
		case seen[a.Name]:
			s.finish(now, b, errored(towpath.CodeConfig, fmt.Sprintf("atom %q is listed twice; each must have one result, so names must differ", a.Name)))
			return
		}
		seen[a.Name] = true
	}
	if len(atoms) == 0 && !b.job.AllowEmpty {
		s.finish(now, b, errored(towpath.CodeConfig, "no atoms: "+nothingListed(b.job)+"; if that is right, set allow_empty: true"))
		return
	}
	s.emit(now, b.number, towpath.AtomsListed{Atoms: atoms})
}
