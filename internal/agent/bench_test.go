package agent_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/agent"
	"github.com/towpath/towpath/internal/executor"
)

// BenchmarkAtoms runs atoms of a command that does nothing, one process each, in two slots.
func BenchmarkAtoms(b *testing.B) {
	s, id := start(b, nil)
	us := make([]towpath.OfferedUnit, b.N)
	for i := range us {
		us[i] = towpath.OfferedUnit{Unit: towpath.Unit{Atom: i}, Name: "x", Limit: guard}
	}
	job := &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"true"}}
	b.ResetTimer()
	if b.N > 1 {
		s.offer(id, towpath.Offer{Attempt: "a", Job: job, Units: us[:b.N/2]})
	}
	s.offer(id, towpath.Offer{Attempt: "b", Job: job, Units: us[b.N/2:]})
	if b.N > 1 {
		done(s, "a")
	}
	done(s, "b")
}

// nothing is an executor of tasks that end at once.
type nothing struct{}

func (nothing) Run(context.Context, executor.Task) (executor.Result, error) {
	return executor.Result{End: executor.EndExited}, nil
}

// BenchmarkNothing runs atoms without a process: what an atom costs the agent, the wire and the session.
func BenchmarkNothing(b *testing.B) {
	s, id := start(b, func(c *agent.Config) { c.Executor = nothing{} })
	us := make([]towpath.OfferedUnit, b.N)
	for i := range us {
		us[i] = towpath.OfferedUnit{Unit: towpath.Unit{Atom: i}, Name: "x", Limit: guard}
	}
	job := &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"true"}}
	b.ResetTimer()
	s.offer(id, towpath.Offer{Attempt: "a", Job: job, Units: us})
	done(s, "a")
}

// BenchmarkAttempts offers attempts of one atom each, without a process, two at a time.
func BenchmarkAttempts(b *testing.B) {
	s, id := start(b, func(c *agent.Config) { c.Executor = nothing{} })
	ended := make(chan struct{}, 2)
	s.mu.Lock()
	s.answer = func(in towpath.Input) error {
		if _, ok := in.(towpath.Done); ok {
			ended <- struct{}{}
		}
		return nil
	}
	s.mu.Unlock()
	job := &towpath.Job{Slots: 1, PerAtom: true, Argv: []string{"true"}}
	b.ResetTimer()
	for i := range b.N {
		if i >= 2 {
			<-ended
		}
		s.offer(id, towpath.Offer{Attempt: towpath.AttemptID(strconv.Itoa(i)), Job: job, Units: units("x")})
	}
	for range min(b.N, 2) {
		<-ended
	}
}
