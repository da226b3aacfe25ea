package simtest

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// plan is one build of a schedule: its job, and what its atoms will do.
type plan struct {
	number  towpath.BuildNumber
	job     towpath.Job
	names   []string
	kinds   []kind
	listing string // "", "fails", "hangs", "empty", "twice"
}

type does uint8

const (
	doesPass does = iota
	doesFail
	doesFlake   // fails the first time, then passes
	doesKill    // takes its agent with it
	doesHang    // runs to its limit
	doesUnclear // cannot be told apart in a batch
	doesError   // cannot be started
	doesSkip
	doesVanish  // the agent says nothing of it
	doesNoSplit // as a part it cannot stand for its atom
	doesPartFail
)

type kind struct {
	does  does
	takes time.Duration
	tries int
}

// result is what a run of an atom says; false: nothing.
func (k *kind) result(w *world, p *proc, u towpath.OfferedUnit) (towpath.AtomReport, bool) {
	k.tries++
	pass := towpath.AtomReport{Outcome: towpath.OutcomePassed}
	fail := towpath.AtomReport{Outcome: towpath.OutcomeFailed, Reason: "1 case failed"}
	if w.chance(50) {
		fail.Failed = []string{"c1", "c2"}
		fail.Cases = []towpath.Case{
			{Name: "c1", Select: "c1", State: towpath.CaseFailed}, {Name: "c2", Select: "c2", State: towpath.CaseFailed},
		}
		if w.chance(30) {
			fail.Failed, fail.Cases = fail.Failed[:1], fail.Cases[:1]
		}
	}
	switch k.does {
	case doesPass, doesKill:
		return pass, true
	case doesFail:
		return fail, true
	case doesFlake:
		if k.tries > 1 {
			return pass, true
		}
		return fail, true
	case doesHang:
		return towpath.AtomReport{Outcome: towpath.OutcomeTimedOut, Reason: "ran past its limit"}, true
	case doesUnclear:
		if len(p.units) > 1 {
			return towpath.AtomReport{Outcome: towpath.OutcomeUnclear, Reason: "exit status 2"}, true
		}
		return pass, true
	case doesError:
		return towpath.AtomReport{Outcome: towpath.OutcomeErrored, Reason: "no such command"}, true
	case doesSkip:
		return towpath.AtomReport{Outcome: towpath.OutcomeSkipped, Reason: "no test files"}, true
	case doesVanish:
		if k.tries > 1 {
			return pass, true
		}
		return towpath.AtomReport{}, false
	case doesNoSplit:
		if u.Part > 0 {
			return towpath.AtomReport{Outcome: towpath.OutcomeNotSplit, Reason: "has a TestMain"}, true
		}
		return pass, true
	case doesPartFail:
		if u.Part > 0 {
			return fail, true
		}
		return pass, true
	}
	return pass, true
}

func (w *world) plan1(n towpath.BuildNumber) *plan { return w.builds[int(n)-1] }

// plan draws the builds and the agents of the schedule: at least 20 atoms and 3 sessions.
func (w *world) plan() {
	r := w.rng
	builds := 1 + r.IntN(3)
	for range builds {
		w.addBuild(20/builds + 1 + r.IntN(12))
	}
	agents := 3 + r.IntN(3)
	hopeless := w.chance(8)
	for i := range agents {
		a := &agent{name: fmt.Sprintf("w%d", i+1), slots: 1 + r.IntN(4), rejoins: w.chance(85), badSetup: w.chance(8), deaf: w.chance(3)}
		if !hopeless && w.chance(70) {
			a.labels = []string{"linux", "big"}
		}
		w.agents = append(w.agents, a)
		w.push(simEvent{at: w.between(0, 4*time.Second), kind: simJoin, agent: a})
	}
}

// addBuild draws one build.
func (w *world) addBuild(atoms int) {
	r := w.rng
	b := &plan{number: towpath.BuildNumber(len(w.builds) + 1)}
	w.res.Atoms += atoms
	b.job = towpath.Job{
		Run: "run", PerAtom: w.chance(60), FailFast: w.chance(10),
		Timeouts: towpath.Timeouts{
			Queue: w.between(20*time.Second, time.Minute), Setup: 30 * time.Second, Atom: w.between(10*time.Second, 20*time.Second),
			Build: w.between(2*time.Minute, 8*time.Minute),
		},
		Retries: towpath.Retries{Failed: r.IntN(3), Lost: 1 + r.IntN(3)},
	}
	j := &b.job
	if w.chance(30) {
		j.Slots = 1 + r.IntN(2)
	}
	if w.chance(40) {
		j.Setup = "make"
	}
	if w.chance(40) {
		j.Teardown = "clean"
	}
	if w.chance(30) {
		j.Labels = []string{"linux"}
	}
	if w.chance(25) {
		j.Parallel.Max = 1 + r.IntN(4)
	}
	if w.chance(20) {
		j.Parallel.PerAgent = 1 + r.IntN(2)
	}
	switch r.IntN(4) {
	case 0:
		j.Batch.Count = 1 + r.IntN(5)
	case 1:
		j.Batch.Target = w.between(time.Second, 5*time.Second)
	}
	if w.chance(20) {
		j.Quarantine = []towpath.Quarantine{{Pattern: fmt.Sprintf("b%d.3", b.number)}, {Pattern: "*::c1"}}
	}
	if w.chance(25) {
		j.Report.Kind = towpath.ReportGoTest
	}
	est := w.planAtoms(b, atoms)
	in := towpath.Submit{Build: b.number, Job: *j, By: "test", Estimates: est}
	switch {
	case w.chance(40):
		j.Atoms.Command = "ls"
		b.listing = []string{"", "", "", "", "", "", "fails", "hangs", "empty", "twice"}[r.IntN(10)]
		in.Estimates = nil
	case w.chance(15):
		for _, name := range b.names {
			in.Only = append(in.Only, towpath.Selection{Atom: name})
		}
	default:
		j.Atoms.List = b.names
	}
	in.Job = *j
	w.builds = append(w.builds, b)
	w.push(simEvent{at: w.now + w.between(0, 6*time.Second), kind: simSubmit, in: in})
}

func (w *world) planAtoms(b *plan, n int) map[string]towpath.Estimate {
	est := map[string]towpath.Estimate{}
	odd := w.rng.IntN(40) // percent of atoms that do not simply pass
	for i := range n {
		k := kind{takes: w.between(50*time.Millisecond, 3*time.Second)}
		if w.chance(odd) {
			k.does = does(1 + w.rng.IntN(int(doesPartFail)))
		}
		name := fmt.Sprintf("b%d.%d", b.number, i)
		if w.chance(70) {
			est[name] = towpath.Estimate{Mean: w.between(k.takes/2, k.takes*2), Dev: k.takes / 4, Passes: 1 + w.rng.IntN(9)}
		}
		if b.job.Report.Kind == towpath.ReportGoTest && i < 2 {
			e := towpath.Estimate{Mean: 2 * time.Minute, Passes: 6}
			for t := range 2 + w.rng.IntN(4) {
				e.Tests = append(e.Tests, towpath.TestEstimate{Name: fmt.Sprintf("T%d", t), Mean: w.between(time.Second, 40*time.Second)})
			}
			est[name] = e
			if w.chance(40) {
				k.does = []does{doesNoSplit, doesPartFail}[w.rng.IntN(2)]
			}
		}
		b.names = append(b.names, name)
		b.kinds = append(b.kinds, k)
	}
	return est
}
