package simtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// agent is a machine that works. It keeps to the protocol, but for what its atoms and the faults do to it.
type agent struct {
	name     string
	slots    int
	labels   []string
	rejoins  bool
	badSetup bool
	deaf     bool // it never begins what it is offered

	sess     towpath.SessionID
	sessions int
	alive    bool
	draining bool
	gen      int // of its process: events of an older one are void
	frozen   time.Duration
	cut      time.Duration // off the network until then
	sent     time.Duration // when its last message arrives: messages keep their order
	told     time.Duration
	known    map[towpath.AttemptID]bool // offered once already, or told to end before it was
	procs    []*proc
}

// proc is one attempt at work.
type proc struct {
	offer   towpath.Offer
	units   []towpath.OfferedUnit
	at      int // index of the unit that runs
	begun   bool
	stopped bool
	ended   bool
	stuck   bool // it does not die
}

func (w *world) join(a *agent) {
	if a.alive {
		return
	}
	a.alive, a.draining = true, false
	a.gen++
	a.sessions++
	a.sess = towpath.SessionID(fmt.Sprintf("%s.%d", a.name, a.sessions))
	a.known = map[towpath.AttemptID]bool{}
	old := a.procs
	a.procs = nil
	w.bySess[a.sess] = a
	w.say(a, towpath.Hello{Session: a.sess, Agent: a.name, Slots: a.slots, Labels: a.labels})
	for _, p := range old {
		// Its spool is of the session before, and it may be confused about that.
		if p.offer.Kind == towpath.AttemptRun && p.at < len(p.units) && w.chance(30) {
			w.report(a, p, p.units[p.at], towpath.AtomReport{Outcome: towpath.OutcomePassed})
		}
	}
	w.push(simEvent{at: w.now + 5*time.Second, kind: simBeat, agent: a, gen: a.gen})
}

// die ends an agent's process. Sometimes its connection tells at once.
func (w *world) die(a *agent) {
	if !a.alive {
		return
	}
	if w.chance(50) {
		w.push(simEvent{at: w.now + 2*time.Second, kind: simInput, in: towpath.Goodbye{Session: a.sess, Reason: "its process died"}})
	}
	w.leave(a)
}

func (w *world) leave(a *agent) {
	a.alive = false
	a.gen++
	if a.rejoins && a.sessions < 12 {
		w.push(simEvent{at: w.now + w.between(time.Second, 8*time.Second), kind: simJoin, agent: a})
	}
}

// deliver decides what the network does with a message: when it arrives, how often, or not at all.
func (w *world) deliver(a *agent, last *time.Duration, id towpath.AttemptID, e simEvent) {
	at := w.now + w.between(time.Millisecond, 40*time.Millisecond)
	at = max(at, *last, a.cut)
	if id != "" {
		switch {
		case w.next[faultLose] > 0:
			w.next[faultLose]--
			w.noteMessage(faultLose, id)
			return
		case w.next[faultDouble] > 0:
			w.next[faultDouble]--
			w.noteMessage(faultDouble, id)
			twin := e
			twin.at = at + w.between(0, 10*time.Second)
			w.push(twin)
		case w.next[faultDelay] > 0:
			w.next[faultDelay]--
			w.noteMessage(faultDelay, id)
			e.at = at + w.between(0, 8*time.Second) // later ones overtake it
			w.push(e)
			return
		}
	}
	*last = at
	e.at = at
	w.push(e)
}

// say sends a message to the driver.
func (w *world) say(a *agent, in towpath.Input) {
	w.deliver(a, &a.sent, attemptIn(in), simEvent{kind: simInput, in: in})
}

// tell sends a command to its agent.
func (w *world) tell(c towpath.Command) {
	sess, id := attemptTold(c)
	if a := w.bySess[sess]; a != nil && a.sess == sess {
		w.deliver(a, &a.told, id, simEvent{kind: simCommand, agent: a, gen: a.gen, cmd: c})
	}
}

// refused sends a refusal back to whoever spoke.
func (w *world) refused(in towpath.Input, err error) {
	var e *towpath.Error
	if !errors.As(err, &e) || e.Code == towpath.CodeInternal {
		w.fail("%T: %w", in, err)
		return
	}
	sess := speaker(in)
	a := w.bySess[sess]
	if a == nil || a.sess != sess {
		return
	}
	ev := simEvent{at: max(w.now+w.between(time.Millisecond, 40*time.Millisecond), a.cut), kind: simRefusal, agent: a, gen: a.gen}
	switch e.Code {
	case towpath.CodeSessionLost:
		if _, hello := in.(towpath.Hello); !hello && w.ledger.sessions[sess] == nil {
			return // its hello is still under way
		}
	default:
		ev.id = attemptIn(in)
	}
	w.push(ev)
}

func (w *world) agentEvent(e simEvent) {
	a := e.agent
	if !a.alive || e.gen != a.gen {
		return
	}
	if a.frozen > w.now {
		e.at = a.frozen
		w.push(e)
		return
	}
	switch e.kind {
	case simBeat:
		w.say(a, towpath.Beat{Session: a.sess})
		if a.draining && len(a.procs) == 0 && w.ledger.sessions[a.sess] != nil && w.ledger.sessions[a.sess].ended {
			w.leave(a)
			return
		}
		w.push(simEvent{at: w.now + 5*time.Second, kind: simBeat, agent: a, gen: a.gen})
	case simRefusal:
		if e.id == "" {
			w.leave(a) // lost: all its work dies
			return
		}
		if i := slices.IndexFunc(a.procs, func(p *proc) bool { return p.offer.Attempt == e.id }); i >= 0 {
			a.procs = slices.Delete(a.procs, i, i+1)
		}
	case simCommand:
		switch c := e.cmd.(type) {
		case towpath.Offer:
			w.take(a, c)
		case towpath.Stop:
			w.stop(a, c)
		case towpath.Recall:
			w.giveBack(a, c)
		}
	case simProc:
		if slices.Contains(a.procs, e.proc) && !e.proc.ended && e.id == planID(e.proc) {
			w.goOn(a, e.proc)
		}
	case simInput, simTick, simJoin, simWake, simSubmit:
	}
}

// planID marks the events of a proc's present plan.
func planID(p *proc) towpath.AttemptID {
	if p.stopped {
		return "stopped"
	}
	return ""
}

func (w *world) later(a *agent, p *proc, d time.Duration) {
	w.push(simEvent{at: w.now + d, kind: simProc, agent: a, gen: a.gen, proc: p, id: planID(p)})
}

func (w *world) take(a *agent, o towpath.Offer) {
	if a.known[o.Attempt] || a.deaf {
		return
	}
	a.known[o.Attempt] = true
	p := &proc{offer: o, units: slices.Clone(o.Units), stuck: w.chance(4)}
	a.procs = append(a.procs, p)
	w.say(a, towpath.Started{Session: a.sess, Attempt: o.Attempt})
	w.later(a, p, w.between(0, 100*time.Millisecond))
}

func (w *world) stop(a *agent, c towpath.Stop) {
	a.known[c.Attempt] = true
	i := slices.IndexFunc(a.procs, func(p *proc) bool { return p.offer.Attempt == c.Attempt })
	if i < 0 {
		if w.chance(50) {
			w.say(a, towpath.Done{Session: a.sess, Attempt: c.Attempt, Outcome: towpath.OutcomeCanceled, Reason: "not begun"})
		}
		return
	}
	p := a.procs[i]
	if p.stopped {
		return
	}
	p.stopped = true
	if p.stuck {
		if w.chance(50) {
			w.later(a, p, w.between(20*time.Second, 60*time.Second))
		}
		return
	}
	w.later(a, p, w.between(0, 6*time.Second))
}

func (w *world) giveBack(a *agent, c towpath.Recall) {
	i := slices.IndexFunc(a.procs, func(p *proc) bool { return p.offer.Attempt == c.Attempt })
	if i < 0 || w.chance(8) {
		return
	}
	p := a.procs[i]
	from := p.at + 1
	if !p.begun {
		from = p.at
	}
	n := min(c.Most, max(0, len(p.units)-from))
	in := towpath.Recalled{Session: a.sess, Attempt: c.Attempt}
	for _, u := range p.units[len(p.units)-n:] {
		in.Units = append(in.Units, u.Unit)
	}
	if p.begun && p.at < len(p.units) && w.chance(6) {
		in.Units = append(in.Units, p.units[p.at].Unit) // which it should not say: that one has begun
	}
	p.units = p.units[:len(p.units)-n]
	w.say(a, in)
}

func (w *world) end(a *agent, p *proc, out towpath.Outcome, reason string, atoms []string) {
	p.ended = true
	if i := slices.Index(a.procs, p); i >= 0 {
		a.procs = slices.Delete(a.procs, i, i+1)
	}
	w.say(a, towpath.Done{Session: a.sess, Attempt: p.offer.Attempt, Outcome: out, Reason: reason, Atoms: atoms})
}

// goOn does the next thing of an attempt's plan.
func (w *world) goOn(a *agent, p *proc) {
	if p.stopped {
		if p.begun && p.at < len(p.units) && w.chance(50) {
			u := p.units[p.at]
			w.report(a, p, u, towpath.AtomReport{Outcome: towpath.OutcomeCanceled, Reason: "told to end"})
		}
		w.end(a, p, towpath.OutcomeCanceled, "told to end", nil)
		return
	}
	b := w.plan1(p.offer.Build)
	switch p.offer.Kind {
	case towpath.AttemptList:
		w.goOnListing(a, p, b)
	case towpath.AttemptSetup, towpath.AttemptTeardown:
		switch {
		case !p.begun:
			p.begun = true
			if w.chance(3) {
				w.later(a, p, 10*time.Minute) // it hangs, and the agent does not look
				return
			}
			w.later(a, p, w.between(100*time.Millisecond, 3*time.Second))
		case p.offer.Kind == towpath.AttemptSetup && a.badSetup:
			w.end(a, p, towpath.OutcomeFailed, "exit status 2", nil)
		default:
			w.end(a, p, towpath.OutcomePassed, "", nil)
		}
	case towpath.AttemptRun:
		w.goOnRunning(a, p, b)
	}
}

func (w *world) goOnListing(a *agent, p *proc, b *plan) {
	if !p.begun {
		p.begun = true
		if b.listing == "hangs" {
			w.later(a, p, 10*time.Minute)
			return
		}
		w.later(a, p, w.between(100*time.Millisecond, 3*time.Second))
		return
	}
	switch b.listing {
	case "fails":
		w.end(a, p, towpath.OutcomeFailed, "exit status 1", nil)
	case "empty":
		w.end(a, p, towpath.OutcomePassed, "", []string{})
	case "twice":
		w.end(a, p, towpath.OutcomePassed, "", append(slices.Clone(b.names), b.names[0]))
	default:
		w.end(a, p, towpath.OutcomePassed, "", b.names)
	}
}

func (w *world) report(a *agent, p *proc, u towpath.OfferedUnit, r towpath.AtomReport) {
	w.say(a, towpath.AtomDone{Session: a.sess, Attempt: p.offer.Attempt, Atom: u.Atom, Part: u.Part, Report: r})
}

// goOnRunning begins the next unit, or says how the present one ended. A job that is one command a batch begins all
// of them at once.
func (w *world) goOnRunning(a *agent, p *proc, b *plan) {
	if p.at >= len(p.units) {
		w.end(a, p, towpath.OutcomePassed, "", nil)
		return
	}
	u := p.units[p.at]
	k := &b.kinds[u.Atom]
	if !p.begun {
		p.begun = true
		if b.job.PerAtom {
			w.say(a, towpath.AtomBegan{Session: a.sess, Attempt: p.offer.Attempt, Atom: u.Atom, Part: u.Part})
		} else if p.at == 0 {
			for _, o := range p.units {
				w.say(a, towpath.AtomBegan{Session: a.sess, Attempt: p.offer.Attempt, Atom: o.Atom, Part: o.Part})
			}
		}
		switch {
		case k.does == doesHang && w.chance(80):
			w.later(a, p, u.Limit) // the agent's own limit ends it
		case k.does == doesHang:
			w.later(a, p, 15*time.Minute)
		default:
			w.later(a, p, k.takes)
		}
		return
	}
	if k.does == doesKill {
		w.die(a)
		return
	}
	if r, ok := k.result(w, p, u); ok {
		r.Duration = k.takes
		w.report(a, p, u, r)
	}
	p.at++
	p.begun = !b.job.PerAtom
	d := w.between(0, 50*time.Millisecond)
	if !b.job.PerAtom && p.at < len(p.units) {
		d = b.kinds[p.units[p.at].Atom].takes
	}
	w.later(a, p, d)
}
