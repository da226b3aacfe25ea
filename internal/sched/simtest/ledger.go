package simtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// ledger follows the events alone and knows what must hold between them, without a look at the decider's own state.
type ledger struct {
	sessions map[towpath.SessionID]*lSession
	builds   map[towpath.BuildNumber]*lBuild
	order    []*lBuild
	attempts map[towpath.AttemptID]*lAttempt
}

type lSession struct {
	id       towpath.SessionID
	slots    int
	labels   []string
	draining bool
	ended    bool
	used     int
}

type lBuild struct {
	number   towpath.BuildNumber
	job      towpath.Job
	at       time.Time
	deadline time.Time
	state    towpath.BuildState
	atoms    []lAtom
	setup    map[towpath.SessionID]string // "runs", "done" or "failed"
	holder   map[towpath.Unit]*lAttempt
	active   int
	runs     int
	tearing  bool
	hopeless time.Time // since when no live session matched while nothing ran
}

type lAtom struct {
	final   towpath.AtomState
	last    towpath.Outcome // of the last accepted report of the whole atom
	parts   int
	passed  map[int]bool // parts
	failed  bool         // an accepted report, or a limit, was against it
	notRun  int          // attempts that ended without a result of it, after it began or may have
	began   int          // of those, the ones that were lost after it was seen to begin
	suspect bool
}

type lAttempt struct {
	id       towpath.AttemptID
	build    *lBuild
	sess     *lSession
	kind     towpath.AttemptKind
	slots    int
	units    map[towpath.Unit]uint8 // 0 waiting, 1 begun, 2 over
	listed   []towpath.Unit
	started  bool
	deadline time.Time
	reports  int
	stopBy   time.Time
	cause    towpath.StopCause
	recall   bool
	ended    bool
	abandon  bool
	suspect  bool
	alone    bool
	cases    bool
	part     bool
}

func newLedger() *ledger {
	return &ledger{
		sessions: map[towpath.SessionID]*lSession{}, builds: map[towpath.BuildNumber]*lBuild{},
		attempts: map[towpath.AttemptID]*lAttempt{},
	}
}

// observe takes in one event. by is the session whose word brought it about, "" if none did.
func (l *ledger) observe(e towpath.Event, by towpath.SessionID) error {
	switch b := e.Body.(type) {
	case towpath.SessionOpened:
		if l.sessions[b.Session] != nil {
			return fmt.Errorf("session %s opened twice", b.Session)
		}
		l.sessions[b.Session] = &lSession{id: b.Session, slots: b.Slots, labels: b.Labels}
		return nil
	case towpath.SessionDraining:
		l.sessions[b.Session].draining = true
		return nil
	case towpath.SessionEnded:
		x := l.sessions[b.Session]
		if x == nil || x.ended {
			return fmt.Errorf("session %s ended twice", b.Session)
		}
		x.ended = true
		return nil
	case towpath.SlotsFreed:
		a := l.attempts[b.Attempt]
		if a == nil || !a.abandon || a.sess.ended {
			return fmt.Errorf("slots of attempt %s freed, which is not abandoned", b.Attempt)
		}
		a.abandon = false
		a.sess.used -= a.slots
		return nil
	case towpath.BuildSubmitted:
		nb := &lBuild{
			number: e.Build, job: b.Job, at: e.At, deadline: b.Deadline, state: towpath.BuildListing, setup: map[towpath.SessionID]string{},
			holder: map[towpath.Unit]*lAttempt{},
		}
		l.builds[e.Build] = nb
		l.order = append(l.order, nb)
		return nil
	}
	b := l.builds[e.Build]
	if b == nil {
		return fmt.Errorf("%T of unknown build %d", e.Body, e.Build)
	}
	switch body := e.Body.(type) {
	case towpath.AtomsListed:
		b.state = towpath.BuildRunning
		b.atoms = make([]lAtom, len(body.Atoms))
		return nil
	case towpath.AtomSplit:
		b.atoms[body.Atom].parts = len(body.Parts)
		b.atoms[body.Atom].passed = map[int]bool{}
		return nil
	case towpath.TeardownBegan:
		b.tearing = true
		return nil
	case towpath.TeardownGivenUp:
		return nil
	case towpath.AttemptOffered:
		return l.offered(e.At, b, body)
	case towpath.AtomFinished:
		return l.atomFinished(b, body)
	case towpath.BuildFinished:
		return l.buildFinished(b, body)
	}
	return l.attempt(e, b, by)
}

func (l *ledger) offered(at time.Time, b *lBuild, e towpath.AttemptOffered) error {
	x := l.sessions[e.Session]
	switch {
	case l.attempts[e.Attempt] != nil:
		return fmt.Errorf("attempt id %s is used twice", e.Attempt)
	case x == nil || x.ended:
		return fmt.Errorf("attempt %s offered to session %s, which is gone", e.Attempt, e.Session)
	case x.draining && e.Kind != towpath.AttemptTeardown:
		return fmt.Errorf("attempt %s offered to session %s, which drains", e.Attempt, e.Session)
	case b.state.Final() && e.Kind != towpath.AttemptTeardown:
		return fmt.Errorf("attempt %s offered for build %d, which is %s", e.Attempt, b.number, b.state)
	case !e.StartBy.After(at):
		return fmt.Errorf("attempt %s is offered without time to begin", e.Attempt)
	}
	for _, want := range b.job.Labels {
		if !slices.Contains(x.labels, want) {
			return fmt.Errorf("attempt %s offered to session %s, which has no label %s", e.Attempt, x.id, want)
		}
	}
	a := &lAttempt{
		id: e.Attempt, build: b, sess: x, kind: e.Kind, slots: max(1, b.job.Slots), units: map[towpath.Unit]uint8{}, deadline: e.StartBy,
	}
	l.attempts[a.id] = a
	b.active++
	x.used += a.slots
	if x.used > x.slots {
		return fmt.Errorf("session %s has %d slots and attempts for %d", x.id, x.slots, x.used)
	}
	switch e.Kind {
	case towpath.AttemptSetup:
		if b.setup[x.id] != "" {
			return fmt.Errorf("second setup of build %d on session %s, the first %s", b.number, x.id, b.setup[x.id])
		}
		b.setup[x.id] = "runs"
	case towpath.AttemptRun:
		b.runs++
		if n := b.job.Parallel.Max; n > 0 && b.runs > n {
			return fmt.Errorf("build %d runs %d attempts, parallel.max is %d", b.number, b.runs, n)
		}
		if b.job.Setup != "" && b.setup[x.id] != "done" {
			return fmt.Errorf("attempt %s runs atoms on session %s, whose setup is %q", a.id, x.id, b.setup[x.id])
		}
		if len(e.Units) == 0 {
			return fmt.Errorf("attempt %s has no units", a.id)
		}
		for _, u := range e.Units {
			t := &b.atoms[u.Atom]
			if t.final != "" {
				return fmt.Errorf("atom %d of build %d is offered again, it is %s", u.Atom, b.number, t.final)
			}
			if _, twice := a.units[u.Unit]; twice {
				return fmt.Errorf("attempt %s has unit %v twice", a.id, u.Unit)
			}
			if o := b.holder[u.Unit]; o != nil && !o.ended && o.units[u.Unit] != 2 {
				return fmt.Errorf("unit %v of build %d is offered while attempt %s has it", u.Unit, b.number, o.id)
			}
			b.holder[u.Unit] = a
			a.units[u.Unit] = 0
			a.listed = append(a.listed, u.Unit)
			a.suspect = a.suspect || t.suspect
			a.cases = a.cases || len(u.Cases) > 0
			a.part = a.part || u.Part > 0
		}
		a.alone = len(e.Units) == 1
	case towpath.AttemptList, towpath.AttemptTeardown:
	}
	return nil
}

func (l *ledger) attempt(e towpath.Event, b *lBuild, by towpath.SessionID) error {
	id := attemptOf(e.Body)
	a := l.attempts[id]
	if a == nil || a.build != b || a.ended {
		return fmt.Errorf("%T of attempt %s, which is not under way", e.Body, id)
	}
	switch body := e.Body.(type) {
	case towpath.AttemptStarted:
		if a.started {
			return fmt.Errorf("attempt %s started twice", id)
		}
		a.started, a.deadline = true, body.Deadline
	case towpath.AtomStarted:
		if st, has := a.units[body.Unit]; !has || st != 0 {
			return fmt.Errorf("attempt %s begins unit %v, which it does not have to begin", id, body.Unit)
		}
		a.units[body.Unit] = 1
	case towpath.AtomReported:
		return l.reported(a, body, by)
	case towpath.RecallAsked:
		a.recall = true
	case towpath.UnitsRecalled:
		a.recall = false
		for _, u := range body.Units {
			if st, has := a.units[u]; !has || st != 0 {
				return fmt.Errorf("attempt %s gives back unit %v, which has begun or is not its own", id, u)
			}
			a.units[u] = 2
		}
	case towpath.AttemptStopped:
		if !a.stopBy.IsZero() && body.By.After(a.stopBy) {
			return fmt.Errorf("attempt %s is given until %v to end, it had until %v", id, body.By, a.stopBy)
		}
		if !a.started && body.By.After(a.deadline) {
			return fmt.Errorf("attempt %s was to begin by %v and is given until %v to end", id, a.deadline, body.By)
		}
		a.stopBy, a.cause = body.By, body.Cause
	case towpath.AttemptEnded:
		l.ended(a, body)
	}
	return nil
}

func attemptOf(body towpath.Body) towpath.AttemptID {
	switch b := body.(type) {
	case towpath.AttemptStarted:
		return b.Attempt
	case towpath.AtomStarted:
		return b.Attempt
	case towpath.AtomReported:
		return b.Attempt
	case towpath.RecallAsked:
		return b.Attempt
	case towpath.UnitsRecalled:
		return b.Attempt
	case towpath.AttemptStopped:
		return b.Attempt
	case towpath.AttemptEnded:
		return b.Attempt
	}
	return ""
}

func (l *ledger) reported(a *lAttempt, e towpath.AtomReported, by towpath.SessionID) error {
	switch st, has := a.units[e.Unit]; {
	case by != a.sess.id:
		return fmt.Errorf("a report of session %q is accepted for attempt %s of session %s", by, a.id, a.sess.id)
	case a.sess.ended:
		return fmt.Errorf("a report of session %s is accepted, which is gone", by)
	case !has || st == 2:
		return fmt.Errorf("a second report of unit %v in attempt %s is accepted, or one that it does not have", e.Unit, a.id)
	}
	a.units[e.Unit] = 2
	a.reports++
	t := &a.build.atoms[e.Atom]
	out := e.Report.Outcome
	if out == towpath.OutcomeCanceled && a.cause == towpath.StopLimit {
		out = towpath.OutcomeTimedOut
	}
	switch out {
	case towpath.OutcomeErrored, towpath.OutcomeCanceled:
		t.notRun++
		return nil
	case towpath.OutcomeFailed, towpath.OutcomeTimedOut, towpath.OutcomeUnclear, towpath.OutcomeNotSplit:
		t.failed = true
	case towpath.OutcomePassed, towpath.OutcomeSkipped:
	}
	if e.Part > 0 {
		t.passed[e.Part] = out == towpath.OutcomePassed || out == towpath.OutcomeSkipped
	} else {
		t.last = out
	}
	return nil
}

func (l *ledger) ended(a *lAttempt, e towpath.AttemptEnded) {
	a.ended = true
	b := a.build
	b.active--
	if a.kind == towpath.AttemptRun {
		b.runs--
	}
	if e.Abandoned {
		a.abandon = true
	} else {
		a.sess.used -= a.slots
	}
	if a.kind == towpath.AttemptSetup {
		switch {
		case e.Lost, e.Expired, a.cause != "" && a.cause != towpath.StopLimit:
			delete(b.setup, a.sess.id)
		case e.Outcome == towpath.OutcomePassed && !e.Abandoned:
			b.setup[a.sess.id] = "done"
		default:
			b.setup[a.sess.id] = "failed"
		}
	}
	began := 0
	for _, u := range a.listed {
		if a.units[u] == 1 {
			began++
		}
	}
	first := true
	for _, u := range a.listed {
		st := a.units[u]
		if st == 2 {
			continue
		}
		t := &b.atoms[u.Atom]
		mayHave := a.started && began == 0 && a.reports == 0 && (first || !b.job.PerAtom)
		first = false
		switch {
		case e.Expired:
		case e.Lost && (st == 1 || mayHave):
			t.notRun++
			t.suspect = true
			if st == 1 && t.final == "" && u.Part == 0 {
				t.began++
			}
		case e.Lost:
		case a.cause == towpath.StopLimit && (st == 1 || mayHave):
			t.failed = true
			if u.Part == 0 {
				t.last = towpath.OutcomeTimedOut
			}
		default:
			t.notRun++
		}
	}
}

func (l *ledger) atomFinished(b *lBuild, e towpath.AtomFinished) error {
	t := &b.atoms[e.Atom]
	if t.final != "" {
		return fmt.Errorf("atom %d of build %d has two results: %s and %s", e.Atom, b.number, t.final, e.State)
	}
	t.final = e.State
	parts := t.parts > 0 && len(t.passed) == t.parts
	for _, ok := range t.passed {
		parts = parts && ok
	}
	limit := b.job.Retries.Lost
	if limit <= 0 {
		limit = 3
	}
	switch e.State {
	case towpath.AtomPassed:
		if t.last != towpath.OutcomePassed && !parts {
			return fmt.Errorf("atom %d of build %d passed, its last report said %q", e.Atom, b.number, t.last)
		}
	case towpath.AtomFlaky:
		if t.last != towpath.OutcomePassed || !t.failed {
			return fmt.Errorf("atom %d of build %d is flaky, its last report said %q", e.Atom, b.number, t.last)
		}
	case towpath.AtomFailed:
		if !t.failed || t.last == towpath.OutcomePassed {
			return fmt.Errorf("atom %d of build %d failed, and no report says so", e.Atom, b.number)
		}
	case towpath.AtomLost:
		if t.notRun < limit {
			return fmt.Errorf("atom %d of build %d is lost after %d attempts without a result, not %d", e.Atom, b.number, t.notRun, limit)
		}
	case towpath.AtomPending, towpath.AtomRunning:
		return fmt.Errorf("atom %d of build %d ends as %s", e.Atom, b.number, e.State)
	case towpath.AtomSkipped, towpath.AtomCanceled, towpath.AtomQuarantined:
	}
	return nil
}

func (l *ledger) buildFinished(b *lBuild, e towpath.BuildFinished) error {
	if b.state.Final() {
		return fmt.Errorf("build %d ends twice", b.number)
	}
	b.state = e.State
	n := towpath.Counts{Total: len(b.atoms)}
	for i := range b.atoms {
		switch b.atoms[i].final {
		case towpath.AtomPassed:
			n.Passed++
		case towpath.AtomFailed:
			n.Failed++
		case towpath.AtomFlaky:
			n.Flaky++
		case towpath.AtomLost:
			n.Lost++
		case towpath.AtomSkipped:
			n.Skipped++
		case towpath.AtomCanceled:
			n.Canceled++
		case towpath.AtomQuarantined:
			n.Quarantined++
		case towpath.AtomPending, towpath.AtomRunning, "":
			return fmt.Errorf("build %d ends and its atom %d has no result", b.number, i)
		}
	}
	if n != e.Atoms {
		return fmt.Errorf("build %d ends with counts %+v, its atoms say %+v", b.number, e.Atoms, n)
	}
	if e.State == towpath.BuildPassed && (n.Failed > 0 || n.Lost > 0 || n.Canceled > 0) {
		return fmt.Errorf("build %d passed with %+v", b.number, n)
	}
	for _, a := range l.attempts {
		if a.build == b && !a.ended && a.stopBy.IsZero() && a.kind != towpath.AttemptTeardown {
			return fmt.Errorf("build %d ends and attempt %s was not told to", b.number, a.id)
		}
	}
	return nil
}

// settled looks at what must hold after a step.
func (l *ledger) settled(now time.Time, slack time.Duration) error {
	for _, b := range l.order {
		if b.state.Final() {
			continue
		}
		if now.After(b.deadline.Add(slack)) {
			return fmt.Errorf("build %d was to end by %v", b.number, b.deadline)
		}
		for i := range b.atoms {
			t := &b.atoms[i]
			limit := b.job.Retries.Lost
			if limit <= 0 {
				limit = 3
			}
			if t.final == "" && t.began >= limit {
				return fmt.Errorf("atom %d of build %d lost %d workers and goes on", i, b.number, t.began)
			}
		}
		if b.active > 0 || l.matches(b) {
			b.hopeless = time.Time{}
			continue
		}
		if b.hopeless.IsZero() {
			b.hopeless = now
		}
		if limit := b.job.Timeouts.Queue; limit > 0 && now.Sub(b.hopeless) > limit+slack {
			return fmt.Errorf("build %d has had no worker for %v", b.number, now.Sub(b.hopeless))
		}
	}
	return nil
}

func (l *ledger) matches(b *lBuild) bool {
	for _, x := range l.sessions {
		if x.ended || x.draining || b.setup[x.id] == "failed" || x.slots < b.job.Slots {
			continue
		}
		ok := true
		for _, want := range b.job.Labels {
			ok = ok && slices.Contains(x.labels, want)
		}
		if ok {
			return true
		}
	}
	return false
}
