package simtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// The faults.
const (
	faultLose = iota
	faultDouble
	faultDelay
	faultFreeze
	faultPartition
	faultKill
	faultRestart
	faultRefuse
	faultSleep
	faultJump
	faultLeader
	faultDrain
	faultCancel
	faultCount
)

var faultNames = [faultCount]string{
	"lose", "duplicate", "reorder", "freeze", "partition", "kill", "restart", "refused write", "driver asleep", "clock jump", "new leader",
	"drain", "cancel",
}

// The states in which a fault may find what it hits.
const (
	stListing = iota
	stRunning
	stTearing
	stWinding
	stListOffered
	stListRuns
	stSetupOffered
	stSetupRuns
	stRunOffered
	stRunRuns
	stRunStops
	stRecall
	stAbandoned
	stSuspect
	stRerun
	stPart
	stTeardownOffered
	stTeardownRuns
	stateCount
)

var stateNames = [stateCount]string{
	"build listing", "build running", "build torn down", "build winding down", "list offered", "list running", "setup offered",
	"setup running", "run offered", "run running", "run stopping", "recall asked", "abandoned", "suspect", "rerun of cases",
	"part of a split atom", "teardown offered", "teardown running",
}

// Reached counts which fault met which state.
type Reached [faultCount][stateCount]int

// Missing names the pairs that were never reached.
func (r *Reached) Missing() []string {
	var out []string
	for f := range r {
		for s, n := range r[f] {
			if n == 0 {
				out = append(out, fmt.Sprintf("%s × %s", faultNames[f], stateNames[s]))
			}
		}
	}
	return out
}

// Pairs is how many pairs there are.
func (r *Reached) Pairs() int { return faultCount * stateCount }

// Add adds the counts of another.
func (r *Reached) Add(o *Reached) {
	for f := range r {
		for s := range r[f] {
			r[f][s] += o[f][s]
		}
	}
}

func (w *world) hit(fault, state int) {
	if w.opt.Reached != nil {
		w.opt.Reached[fault][state]++
	}
}

func (w *world) hitAttempt(fault int, a *lAttempt) {
	if a.abandon {
		w.hit(fault, stAbandoned)
		return
	}
	if a.ended {
		return
	}
	pick := func(offered, runs int) {
		if a.started {
			w.hit(fault, runs)
		} else {
			w.hit(fault, offered)
		}
	}
	switch a.kind {
	case towpath.AttemptList:
		pick(stListOffered, stListRuns)
	case towpath.AttemptSetup:
		pick(stSetupOffered, stSetupRuns)
	case towpath.AttemptTeardown:
		pick(stTeardownOffered, stTeardownRuns)
	case towpath.AttemptRun:
		if !a.stopBy.IsZero() {
			w.hit(fault, stRunStops)
		} else {
			pick(stRunOffered, stRunRuns)
		}
		if a.recall {
			w.hit(fault, stRecall)
		}
		if a.suspect {
			w.hit(fault, stSuspect)
		}
		if a.cases {
			w.hit(fault, stRerun)
		}
		if a.part {
			w.hit(fault, stPart)
		}
	}
}

func (w *world) hitBuild(fault int, b *lBuild) {
	switch {
	case b.state == towpath.BuildListing:
		w.hit(fault, stListing)
	case !b.state.Final() && b.tearing:
		w.hit(fault, stTearing)
	case !b.state.Final():
		w.hit(fault, stRunning)
	case b.active > 0:
		w.hit(fault, stWinding)
	}
}

// noteAll counts a fault that meets everything there is.
func (w *world) noteAll(fault int) {
	if w.opt.Reached == nil {
		return
	}
	for _, b := range w.ledger.order {
		w.hitBuild(fault, b)
	}
	for _, a := range w.ledger.attempts {
		if !a.sess.ended {
			w.hitAttempt(fault, a)
		}
	}
}

// noteSession counts a fault that meets one session.
func (w *world) noteSession(fault int, id towpath.SessionID) {
	if w.opt.Reached == nil {
		return
	}
	for _, b := range w.ledger.order {
		w.hitBuild(fault, b)
	}
	for _, a := range w.ledger.attempts {
		if a.sess.id == id && !a.sess.ended {
			w.hitAttempt(fault, a)
		}
	}
}

// noteMessage counts a fault that meets one message.
func (w *world) noteMessage(fault int, id towpath.AttemptID) {
	if a := w.ledger.attempts[id]; a != nil {
		w.hitAttempt(fault, a)
		w.hitBuild(fault, a.build)
	}
}

// maybeFault lets something go wrong before a step, every few steps.
func (w *world) maybeFault() {
	if w.left == 0 {
		return
	}
	if w.toFault--; w.toFault > 0 {
		return
	}
	w.toFault = 1 + w.rng.IntN(18)
	w.left--
	w.faults++
	fault := w.rng.IntN(faultCount)
	if w.opt.Script {
		fmt.Fprintf(&w.script, "# fault: %s\n", faultNames[fault])
	}
	switch fault {
	case faultLose, faultDouble, faultDelay:
		w.next[fault] += 1 + w.rng.IntN(2)
	case faultFreeze, faultPartition, faultKill, faultDrain:
		w.agentFault(fault)
	case faultRestart, faultSleep, faultJump, faultLeader:
		w.driverFault(fault)
	case faultRefuse:
		w.refuse = true
	case faultCancel:
		b := w.builds[w.rng.IntN(len(w.builds))]
		if lb := w.ledger.builds[b.number]; lb != nil {
			w.hitBuild(fault, lb)
			for _, a := range w.ledger.attempts {
				if a.build == lb && !a.sess.ended {
					w.hitAttempt(fault, a)
				}
			}
			w.push(simEvent{at: w.now, kind: simInput, in: towpath.Cancel{Build: b.number, By: "someone"}})
		}
	}
}

func (w *world) agentFault(fault int) {
	a := w.agents[w.rng.IntN(len(w.agents))]
	if !a.alive {
		return
	}
	w.noteSession(fault, a.sess)
	switch fault {
	case faultFreeze:
		a.frozen = max(a.frozen, w.now+w.between(time.Second, 40*time.Second))
	case faultPartition:
		a.cut = max(a.cut, w.now+w.between(time.Second, 30*time.Second))
	case faultKill:
		w.die(a)
	case faultDrain:
		w.say(a, towpath.Drain{Session: a.sess})
		a.draining = true
		// Another machine takes its place.
		b := &agent{name: a.name + "+", slots: a.slots, labels: slices.Clone(a.labels), rejoins: true}
		w.agents = append(w.agents, b)
		w.push(simEvent{at: w.now + w.between(0, 10*time.Second), kind: simJoin, agent: b})
	}
}

func (w *world) driverFault(fault int) {
	w.noteAll(fault)
	gap := w.between(0, 12*time.Second)
	switch fault {
	case faultSleep:
		gap = w.between(0, 90*time.Second)
	case faultJump:
		jump := w.between(-time.Minute, time.Minute)
		w.offset += jump
		w.slack += jump.Abs()
		w.reload()
	case faultRestart:
		w.compare()
		w.reload()
	case faultLeader:
		w.reload()
		gap = w.between(0, 5*time.Second)
		for _, c := range w.recent {
			w.tell(c) // the old leader's last words may come twice
		}
	}
	if w.opt.Script && fault != faultSleep {
		fmt.Fprintf(&w.script, "restart @%v\n", w.now+w.offset)
	}
	w.slack += gap
	w.slept = gap
	w.down = true
	w.push(simEvent{at: w.now + gap, kind: simWake})
}
