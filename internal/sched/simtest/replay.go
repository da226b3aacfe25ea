package simtest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

// rig is a decider with its log and the checks, without a world around it.
type rig struct {
	create func(sched.Config) *sched.State
	cfg    sched.Config
	ids    int
	state  *sched.State
	log    []towpath.Event
	ledger *ledger
	slack  time.Duration
}

func newRig(create func(sched.Config) *sched.State) *rig {
	if create == nil {
		create = sched.New
	}
	r := &rig{create: create, ledger: newLedger(), slack: time.Hour}
	r.cfg.NewID = func() string { r.ids++; return fmt.Sprintf("t%d", r.ids) }
	r.state = create(r.cfg)
	return r
}

// step gives one input, and checks everything.
func (r *rig) step(now time.Time, in towpath.Input) ([]towpath.Event, error, error) {
	events, refusal := r.state.Step(now, in)
	if towpath.CodeOf(refusal) == towpath.CodeInternal {
		return nil, refusal, refusal
	}
	for i := range events {
		if err := r.ledger.observe(events[i], speaker(in)); err != nil {
			return events, refusal, err
		}
	}
	r.log = append(r.log, events...)
	if err := r.state.Check(now); err != nil {
		return events, refusal, err
	}
	return events, refusal, r.ledger.settled(now, r.slack)
}

func (r *rig) reload(now time.Time) error {
	s := r.create(r.cfg)
	for i := range r.log {
		if err := s.Apply(r.log[i]); err != nil {
			return fmt.Errorf("replay event %d of %d: %w", i+1, len(r.log), err)
		}
	}
	s.Resume(now)
	r.state = s
	return nil
}

// same says whether a replay gives the state that there is.
func (r *rig) same() error {
	have := r.state.Dump()
	s := r.create(r.cfg)
	for i := range r.log {
		if err := s.Apply(r.log[i]); err != nil {
			return fmt.Errorf("replay event %d of %d: %w", i+1, len(r.log), err)
		}
	}
	if !bytes.Equal(s.Dump(), have) {
		return fmt.Errorf("replay gives another state")
	}
	return nil
}

// Replay runs a script that Run wrote and returns the first broken promise.
func Replay(script string, create func(sched.Config) *sched.State) error {
	r := newRig(create)
	lines := strings.Split(script, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		at, hasTime := strings.CutPrefix(word, "@")
		if word == "restart" {
			at, hasTime = strings.CutPrefix(rest, "@")
		}
		var now time.Time
		if hasTime {
			d, err := time.ParseDuration(at)
			if err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
			now = start.Add(d)
		}
		switch {
		case word == "" || word == "#" || word == "refused":
		case word == "restart":
			if err := r.same(); err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
			if err := r.reload(now); err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
		case !hasTime:
			return fmt.Errorf("line %d: %q is no line of a script", i+1, line)
		default:
			in, err := Parse(rest)
			if err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
			if i+1 < len(lines) && strings.TrimSpace(lines[i+1]) == "refused" { // the write failed: it never happened
				_, _ = r.state.Step(now, in)
				if err := r.reload(now); err != nil {
					return fmt.Errorf("line %d: %w", i+1, err)
				}
				continue
			}
			if _, _, err := r.step(now, in); err != nil {
				return fmt.Errorf("line %d: %s: %w", i+1, line, err)
			}
		}
	}
	return r.same()
}

// Story runs a scenario: lines that begin with > are what happens, "+2s" in front lets time pass first. What follows from
// each is written beneath it, in place of what was there. Comments, which begin with #, and empty lines stay. Sessions are
// heard from every 3 s unless "silent SESSION" was said; "restart" replays the log.
func Story(text string) (string, error) {
	r := newRig(nil)
	tell := NewTeller()
	now := start
	silent := map[string]bool{}
	var out strings.Builder
	say := func(in towpath.Input) error {
		events, refusal, err := r.step(now, in)
		if refusal != nil {
			fmt.Fprintf(&out, "  %-8v refused, %s: %v\n", now.Sub(start), towpath.CodeOf(refusal), refusal)
		}
		for i := range events {
			fmt.Fprintf(&out, "  %-8v %s\n", now.Sub(start), tell.Tell(events[i], start))
		}
		return err
	}
	beat := start
	pass := func(d time.Duration) error {
		until := now.Add(d)
		for {
			next := beat.Add(3 * time.Second)
			tick := false
			if at, ok := r.state.Next(); ok && at.Before(next) {
				next, tick = at, true
			}
			if next.After(until) {
				now = until
				return nil
			}
			if next.After(now) {
				now = next
			}
			if tick {
				if err := say(towpath.Tick{}); err != nil {
					return err
				}
				continue
			}
			beat = now
			for _, id := range r.state.Sessions() {
				if !silent[string(id)] {
					if err := say(towpath.Beat{Session: id}); err != nil {
						return err
					}
				}
			}
		}
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			continue
		}
		rest, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		fmt.Fprintln(&out, line)
		err := func() error {
			if word, after, _ := strings.Cut(rest, " "); strings.HasPrefix(word, "+") {
				d, err := time.ParseDuration(word)
				if err != nil {
					return err
				}
				if after == "asleep" { // nobody ticks
					now = now.Add(d)
					beat = now
					return nil
				}
				if err := pass(d); err != nil || after == "" {
					return err
				}
				rest = after
			}
			word, after, _ := strings.Cut(rest, " ")
			switch word {
			case "silent":
				silent[after] = true
				return nil
			case "restart":
				if err := r.same(); err != nil {
					return err
				}
				return r.reload(now)
			case "waiting":
				for _, n := range r.state.Builds() {
					for _, w := range r.state.Waiting(n) {
						fmt.Fprintf(&out, "  %-8v build %d waits for %s; at %v %s\n", now.Sub(start), n, w.What, w.Until.Sub(start), w.Then)
					}
				}
				return nil
			}
			in, err := Parse(rest)
			if err != nil {
				return err
			}
			return say(in)
		}()
		if err != nil {
			return out.String(), fmt.Errorf("line %d: %s: %w", i+1, line, err)
		}
	}
	return out.String(), r.same()
}
