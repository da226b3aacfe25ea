package towpath

// BuildState is where a build stands.
type BuildState string

// The states of a build. The last four are final.
const (
	BuildListing  BuildState = "listing" // its atoms are being listed
	BuildRunning  BuildState = "running"
	BuildPassed   BuildState = "passed"
	BuildFailed   BuildState = "failed"
	BuildCanceled BuildState = "canceled"
	BuildErrored  BuildState = "errored"
)

// Final says whether a build in this state has ended.
func (s BuildState) Final() bool {
	switch s {
	case BuildPassed, BuildFailed, BuildCanceled, BuildErrored:
		return true
	case BuildListing, BuildRunning:
		return false
	}
	return false
}

// AtomState is where an atom of a build stands.
type AtomState string

// The states of an atom. All but the first two are final.
const (
	AtomPending     AtomState = "pending"
	AtomRunning     AtomState = "running" // it is in an attempt that was offered
	AtomPassed      AtomState = "passed"
	AtomFailed      AtomState = "failed"
	AtomFlaky       AtomState = "flaky"   // failed, then passed on the same code
	AtomLost        AtomState = "lost"    // its workers went away too often
	AtomSkipped     AtomState = "skipped" // it ran and had nothing to do, or fail-fast left it out
	AtomCanceled    AtomState = "canceled"
	AtomQuarantined AtomState = "quarantined" // it ran, and its outcome does not count
)

// Final says whether an atom in this state has its result.
func (s AtomState) Final() bool {
	switch s {
	case AtomPending, AtomRunning:
		return false
	case AtomPassed, AtomFailed, AtomFlaky, AtomLost, AtomSkipped, AtomCanceled, AtomQuarantined:
		return true
	}
	return false
}

// CaseState is the result of one test case.
type CaseState string

// The results of a case. Unfinished: it is known to exist, and no result of it came.
const (
	CasePassed      CaseState = "passed"
	CaseFailed      CaseState = "failed"
	CaseSkipped     CaseState = "skipped"
	CaseFlaky       CaseState = "flaky"
	CaseQuarantined CaseState = "quarantined"
	CaseUnfinished  CaseState = "unfinished"
)

// AttemptKind says what an attempt does.
type AttemptKind string

// The kinds of attempts.
const (
	AttemptList     AttemptKind = "list"     // list the atoms of a build
	AttemptSetup    AttemptKind = "setup"    // run Job.Setup, once per build and session
	AttemptRun      AttemptKind = "run"      // run atoms
	AttemptTeardown AttemptKind = "teardown" // run Job.Teardown, once per build and session that ran Setup or atoms
)

// Outcome is what one attempt found of one atom, or of its own list, setup or teardown command.
type Outcome string

// The outcomes.
const (
	OutcomePassed   Outcome = "passed"
	OutcomeFailed   Outcome = "failed"   // the test, or the command, says so
	OutcomeTimedOut Outcome = "timeout"  // ended at its own limit, or the silence limit
	OutcomeSkipped  Outcome = "skipped"  // nothing in it ran, and that is no failure
	OutcomeCanceled Outcome = "canceled" // ended because it was told to
	OutcomeUnclear  Outcome = "unclear"  // a batch went wrong and it cannot be told for which atom: run this one alone
	OutcomeNotSplit Outcome = "notsplit" // the part cannot stand for its atom: run the atom whole, and never split it again
	OutcomeErrored  Outcome = "errored"  // the agent could not start it at all
)
