package sched

import (
	"encoding/json"
	"time"

	"github.com/towpath/towpath"
)

// Dump writes the whole state but the leases as canonical JSON: equal states give equal bytes. It is for tests and for
// people who look for a fault.
func (s *State) Dump() []byte {
	d := stateDump{Fixed: s.fixed, Ended: s.ended.order}
	for _, x := range s.order {
		sd := sessionDump{
			ID: x.id, Agent: x.agent, Class: x.class, Slots: x.slots, Labels: x.labels, Draining: x.draining, Used: x.used,
			Suspects: x.suspects, Speed: x.speed, AsideN: x.asideN, Aside: nanos(x.aside),
		}
		for _, a := range x.attempts {
			sd.Attempts = append(sd.Attempts, dumpAttempt(a))
		}
		d.Sessions = append(d.Sessions, sd)
	}
	for _, b := range s.live {
		d.Builds = append(d.Builds, dumpBuild(b))
	}
	out, err := json.Marshal(d)
	if err != nil {
		return []byte(err.Error())
	}
	return out
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

type stateDump struct {
	Sessions []sessionDump
	Builds   []buildDump
	Fixed    map[string]time.Duration // written in the order of its keys
	Ended    []towpath.SessionID
}

type sessionDump struct {
	ID       towpath.SessionID
	Agent    string
	Class    string
	Slots    int
	Labels   []string
	Draining bool
	Used     int
	Suspects int
	Speed    int64
	AsideN   int
	Aside    int64
	Attempts []attemptDump
}

type attemptDump struct {
	ID                              towpath.AttemptID
	Build                           towpath.BuildNumber
	Number                          int
	Kind                            towpath.AttemptKind
	Units                           []towpath.Unit
	Suspect, Started, Abandoned     bool
	StartBy, Deadline, Stop, Recall int64
	Began, Reported, Left, RestN    int
	RestSum, Limit, Took            time.Duration
	Since                           int64
	Recalls                         int
	StopCause                       towpath.StopCause
	StopReason                      string
}

func dumpAttempt(a *attempt) attemptDump {
	return attemptDump{
		ID: a.id, Build: a.build.number, Number: a.number, Kind: a.kind, Units: a.units, Suspect: a.suspect, Started: a.started,
		Abandoned: a.abandoned, StartBy: nanos(a.startBy), Deadline: nanos(a.deadline), Stop: nanos(a.stopBy),
		Recall: nanos(a.recallBy), Began: a.began, Reported: a.reported, Left: a.left, RestN: a.restN, RestSum: a.restSum,
		Limit: a.limit, Took: a.took, Since: nanos(a.since), Recalls: a.recalls, StopCause: a.stopCause, StopReason: a.stopReason,
	}
}

type bindingDump struct {
	Session            towpath.SessionID
	Matches            bool
	Setup              setupState
	Active, Runs       int
	Used, Torn, Usable bool
}

type unitDump struct {
	Attempt               towpath.AttemptID
	Began, Alone, Suspect bool
	Queued                queued
	Cases                 []string
	Mean                  time.Duration
}

type atomDump struct {
	Name           string
	State, Next    towpath.AtomState
	Reason         string
	Verdict        towpath.AttemptID
	Decided        bool
	Units          []unitDump
	Done           []bool
	Unsplit, Never bool
	Fails          int
	Losses         []string
	Took, Longest  time.Duration
}

type buildDump struct {
	Number                                     towpath.BuildNumber
	Job                                        *towpath.Job
	State                                      towpath.BuildState
	Reason                                     string
	Since, Deadline, NoneSince, ListBy, TearBy int64
	Bindings                                   []bindingDump
	Matching, Width, Peak                      int
	Active                                     []towpath.AttemptID
	Numbers, Running, Runs                     int
	ListLost, SetupLost, SetupFail             []string
	Queue, Alone                               []towpath.Unit
	WaitSum, Usual, NewSum, Fixed, Overlap     time.Duration
	Begun                                      int64
	WaitNew, Unfinished, Cases                 int
	NewCount                                   int64
	Split, Tearing                             bool
	Atoms                                      []atomDump
}

func dumpUnit(u *unit) unitDump {
	d := unitDump{Began: u.began, Alone: u.alone, Suspect: u.suspect, Queued: u.queued, Cases: u.cases, Mean: u.mean}
	if u.attempt != nil {
		d.Attempt = u.attempt.id
	}
	return d
}

func dumpBuild(b *build) buildDump {
	d := buildDump{
		Number: b.number, Job: b.job, State: b.state, Reason: b.reason, Since: nanos(b.since), Deadline: nanos(b.deadline),
		NoneSince: nanos(b.noneSince), ListBy: nanos(b.listBy), TearBy: nanos(b.teardownBy), Matching: b.matching, Width: b.width,
		Peak: b.peak, Numbers: b.numbers, Running: b.running, Runs: b.runs, ListLost: b.listLost, SetupLost: b.setupLost,
		SetupFail: b.setupFail, WaitSum: b.waitSum, Usual: b.usual, NewSum: b.newSum, Fixed: b.fixed, Overlap: b.overlap, Begun: nanos(b.begun), WaitNew: b.waitNew,
		Unfinished: b.unfinished, Cases: b.cases, NewCount: b.newCount, Split: b.splitDone, Tearing: b.tearing,
	}
	for _, g := range b.bindings {
		d.Bindings = append(d.Bindings, bindingDump{g.sess.id, g.matches, g.setup, g.active, g.runs, g.used, g.torn, g.usable()})
	}
	for _, a := range b.active {
		d.Active = append(d.Active, a.id)
	}
	d.Queue = b.waiting(&b.queue, inQueue)
	d.Alone = b.waiting(&b.alone, inAlone)
	for _, a := range b.atoms {
		ad := atomDump{
			Name: a.name, State: a.state, Next: a.next, Reason: a.reason, Verdict: a.verdict, Decided: a.decided, Unsplit: a.unsplit,
			Never: a.never, Fails: a.fails, Losses: a.losses, Took: a.took, Longest: a.longest,
		}
		ad.Units = append(ad.Units, dumpUnit(&a.whole))
		for i := range a.parts {
			ad.Units = append(ad.Units, dumpUnit(&a.parts[i].unit))
			ad.Done = append(ad.Done, a.parts[i].done)
		}
		d.Atoms = append(d.Atoms, ad)
	}
	return d
}

func (b *build) waiting(q *queue, kind queued) []towpath.Unit {
	var units []towpath.Unit
	for i := b.peek(q, q.head, kind); i < len(q.items); i = b.peek(q, i+1, kind) {
		units = append(units, q.items[i])
	}
	return units
}
