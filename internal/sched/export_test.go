package sched

// SetBug makes the state commit one of Bugs.
func (s *State) SetBug(name string) { s.bug = bug(name) }

// Bugs names the mistakes that the simulation must find.
func Bugs() []string {
	return []string{
		string(bugStopAgain), string(bugForeignReport), string(bugDoubleReport), string(bugRecallBegun), string(bugLateTick),
		string(bugReuseAbandoned), string(bugChargeAll), string(bugOverSlots), string(bugParallel), string(bugIdle),
		string(bugNoQueueLimit), string(bugDraining), string(bugLabels), string(bugDropRecalled), string(bugRetryForever),
		string(bugSuspects), string(bugNoStop), string(bugLeaveLost), string(bugFlakyPasses), string(bugForgetFinish),
		string(bugUnreplayable),
	}
}
