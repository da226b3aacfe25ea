package simtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// Teller writes events as lines that read like a story. It remembers the names that later events only point to.
type Teller struct {
	atoms    map[towpath.BuildNumber][]string
	attempts map[towpath.AttemptID]towpath.AttemptOffered
	agents   map[towpath.SessionID]string
}

// NewTeller returns one that has heard nothing yet.
func NewTeller() *Teller {
	return &Teller{
		atoms:    map[towpath.BuildNumber][]string{},
		attempts: map[towpath.AttemptID]towpath.AttemptOffered{},
		agents:   map[towpath.SessionID]string{},
	}
}

func (t *Teller) unit(n towpath.BuildNumber, u towpath.Unit) string {
	name := fmt.Sprintf("#%d", u.Atom)
	if names := t.atoms[n]; u.Atom < len(names) {
		name = names[u.Atom]
	}
	if u.Part > 0 {
		name += fmt.Sprintf("/%d", u.Part)
	}
	return name
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Tell writes one event; since is the time to which deadlines are related.
func (t *Teller) Tell(e towpath.Event, since time.Time) string {
	n := e.Build
	by := func(at time.Time) string { return "by " + at.Sub(since).String() }
	attempt := func(id towpath.AttemptID) string {
		o := t.attempts[id]
		return fmt.Sprintf("build %d, attempt %d (%s on %s)", n, o.Number, o.Kind, o.Agent)
	}
	switch b := e.Body.(type) {
	case towpath.SessionOpened:
		t.agents[b.Session] = b.Agent
		return fmt.Sprintf("worker %s is here with %d slots %s", b.Agent, b.Slots, strings.Join(b.Labels, ","))
	case towpath.SessionDraining:
		return fmt.Sprintf("worker %s drains", t.agents[b.Session])
	case towpath.SessionEnded:
		if b.Lost {
			return fmt.Sprintf("worker %s is lost: %s", t.agents[b.Session], b.Reason)
		}
		return fmt.Sprintf("worker %s is gone: %s", t.agents[b.Session], b.Reason)
	case towpath.SlotsFreed:
		return fmt.Sprintf("the slots of attempt %s on %s are free after all", b.Attempt, t.agents[b.Session])
	case towpath.BuildSubmitted:
		return fmt.Sprintf("build %d begins, ends %s", n, by(b.Deadline))
	case towpath.AtomsListed:
		for _, a := range b.Atoms {
			t.atoms[n] = append(t.atoms[n], a.Name)
		}
		return fmt.Sprintf("build %d has atoms %s", n, strings.Join(t.atoms[n], " "))
	case towpath.AtomSplit:
		var parts []string
		for _, p := range b.Parts {
			if p.Rest {
				parts = append(parts, "all but "+strings.Join(p.Skip, "+"))
			} else {
				parts = append(parts, strings.Join(p.Run, "+"))
			}
		}
		return fmt.Sprintf("build %d, %s is run in parts: %s", n, t.unit(n, towpath.Unit{Atom: b.Atom}), strings.Join(parts, "; "))
	case towpath.AttemptOffered:
		t.attempts[b.Attempt] = b
		var text strings.Builder
		text.WriteString(attempt(b.Attempt) + " is offered")
		for _, u := range b.Units {
			text.WriteString(" " + t.unit(n, u.Unit))
			if len(u.Cases) > 0 {
				text.WriteString("{" + strings.Join(u.Cases, ",") + "}")
			}
		}
		return text.String()
	case towpath.AttemptStarted:
		return attempt(b.Attempt) + " begins, ends " + by(b.Deadline)
	case towpath.AtomStarted:
		return attempt(b.Attempt) + " begins " + t.unit(n, b.Unit)
	case towpath.AtomReported:
		text := fmt.Sprintf("%s: %s %s%s", attempt(b.Attempt), t.unit(n, b.Unit), b.Report.Outcome, because(b.Report.Reason))
		if b.Quarantined {
			text += " (only cases in quarantine)"
		}
		return text
	case towpath.RecallAsked:
		return fmt.Sprintf("%s is asked for up to %d back, %s", attempt(b.Attempt), b.Most, by(b.By))
	case towpath.UnitsRecalled:
		var text strings.Builder
		text.WriteString(attempt(b.Attempt) + " gives back")
		for _, u := range b.Units {
			text.WriteString(" " + t.unit(n, u))
		}
		return text.String()
	case towpath.AttemptStopped:
		return fmt.Sprintf("%s is told to end %s (%s): %s", attempt(b.Attempt), by(b.By), b.Cause, b.Reason)
	case towpath.AttemptEnded:
		how := string(b.Outcome)
		switch {
		case b.Lost:
			how = "lost"
		case b.Expired:
			how = "expired"
		case b.Abandoned:
			how = "abandoned"
		}
		return fmt.Sprintf("%s ends %s%s", attempt(b.Attempt), how, because(b.Reason))
	case towpath.AtomFinished:
		text := fmt.Sprintf("build %d, %s is %s%s", n, t.unit(n, towpath.Unit{Atom: b.Atom}), b.State, because(b.Reason))
		if b.NeverSplit {
			text += " [never split again]"
		}
		return text
	case towpath.TeardownBegan:
		return fmt.Sprintf("build %d is torn down, %s", n, by(b.By))
	case towpath.TeardownGivenUp:
		return fmt.Sprintf("build %d: teardowns are given up", n)
	case towpath.BuildFinished:
		text := fmt.Sprintf("build %d is %s%s", n, b.State, because(b.Reason))
		if b.LowerBound > 0 {
			text += fmt.Sprintf(" [lower bound %v", b.LowerBound)
			if b.Floor != "" {
				text += ", by " + b.Floor
			}
			text += "]"
		}
		return text
	}
	return fmt.Sprintf("%T", e.Body)
}
