package tunnel

import (
	"fmt"
	"slices"
)

// members is what a Registry knows, and what it answers. It is owned by one goroutine and waits for nothing: each answer
// goes to a channel that has room for it.
type members struct {
	maxWaiting, maxTunnels int

	agents  map[string]*agent // with a tunnel or somebody waiting
	tunnels int
	closed  bool
}

type agent struct {
	tunnels []*Tunnel
	waiting []seek // first come, first served; only while there is no tunnel to give
}

func (m *members) agent(id string) *agent {
	a := m.agents[id]
	if a == nil {
		a = new(agent)
		m.agents[id] = a
	}
	return a
}

func (m *members) forgetIfEmpty(id string) {
	if a := m.agents[id]; a != nil && len(a.tunnels) == 0 && len(a.waiting) == 0 {
		delete(m.agents, id)
	}
}

func (m *members) join(t *Tunnel) error {
	if m.closed {
		return ErrClosed
	}
	defer m.forgetIfEmpty(t.id)
	a := m.agent(t.id)
	if len(a.tunnels) >= m.maxTunnels {
		return &RefusedError{
			Code:    CodeTooMany,
			Message: fmt.Sprintf("agent %q has %d connections already; is its name used twice?", t.id, len(a.tunnels)),
		}
	}
	a.tunnels = append(a.tunnels, t)
	m.tunnels++
	for _, s := range a.waiting {
		s.answer <- found{t: t}
	}
	a.waiting = nil
	return nil
}

// leave forgets t itself: whether its agent has other tunnels is another question. One that is not known is forgiven.
func (m *members) leave(t *Tunnel) {
	a := m.agents[t.id]
	if a == nil {
		return
	}
	i := slices.Index(a.tunnels, t)
	if i < 0 {
		return
	}
	a.tunnels = slices.Delete(a.tunnels, i, i+1)
	m.tunnels--
	m.forgetIfEmpty(t.id)
}

func (m *members) seek(s seek) {
	if m.closed {
		s.answer <- found{err: ErrClosed}
		return
	}
	a := m.agent(s.id)
	if t := a.best(); t != nil {
		s.answer <- found{t: t}
		return
	}
	if len(a.waiting) >= m.maxWaiting {
		s.answer <- found{err: fmt.Errorf("agent %q: %w", s.id, ErrBusy)}
		return
	}
	a.waiting = append(a.waiting, s)
}

// best is the tunnel with the fewest requests among those whose agent stays, or else among those that are to move.
func (a *agent) best() *Tunnel {
	var best *Tunnel
	for _, t := range a.tunnels {
		if t.Err() != nil || isClosed(t.Leaving()) {
			continue // its leave is on the way, or will be
		}
		if best == nil || best.moving.Load() && !t.moving.Load() ||
			best.moving.Load() == t.moving.Load() && t.inFlight.Load() < best.inFlight.Load() {
			best = t
		}
	}
	return best
}

// abort forgets a seeker that has stopped waiting; if it has its answer already, there is nobody to forget.
func (m *members) abort(s seek) {
	a := m.agents[s.id]
	if a == nil {
		return
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(w seek) bool { return w.answer == s.answer })
	m.forgetIfEmpty(s.id)
}

func (m *members) list() []*Tunnel {
	all := make([]*Tunnel, 0, m.tunnels)
	for _, a := range m.agents {
		all = append(all, a.tunnels...)
	}
	return all
}

// stop answers all who wait, and whoever comes after.
func (m *members) stop() {
	m.closed = true
	for id, a := range m.agents {
		for _, s := range a.waiting {
			s.answer <- found{err: ErrClosed}
		}
		a.waiting = nil
		m.forgetIfEmpty(id)
	}
}
