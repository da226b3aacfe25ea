package sched

// bug names a mistake that a test makes the decider commit, to show that the simulation would find it. Outside of tests
// it is empty.
type bug string

const (
	bugStopAgain      bug = "a second stop gives an attempt new time"
	bugForeignReport  bug = "a session may report for another's attempt"
	bugDoubleReport   bug = "a second report of a unit counts"
	bugRecallBegun    bug = "units that have begun are taken back"
	bugLateTick       bug = "a driver that slept loses every session"
	bugReuseAbandoned bug = "slots of an abandoned attempt are used again"
	bugChargeAll      bug = "a loss is charged to atoms that had not begun"
	bugOverSlots      bug = "one slot too many is filled"
	bugParallel       bug = "parallel.max is exceeded by one"
	bugIdle           bug = "the last waiting atom is left until something else happens"
	bugNoQueueLimit   bug = "waiting for a worker has no limit"
	bugDraining       bug = "a draining session gets offers"
	bugLabels         bug = "labels are not looked at"
	bugDropRecalled   bug = "recalled units are forgotten"
	bugRetryForever   bug = "a lost atom is never given up"
	bugSuspects       bug = "several suspects run on a session at once"
	bugNoStop         bug = "attempts of a canceled build run on"
	bugLeaveLost      bug = "attempts of a lost session are left as they were"
	bugFlakyPasses    bug = "a rerun that fails counts as passed"
	bugForgetFinish   bug = "an atom without a result is left out at the end of its build"
	bugUnreplayable   bug = "a decision changes the state without an event"
)
