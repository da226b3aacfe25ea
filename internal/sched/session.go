package sched

import (
	"slices"
	"time"

	"github.com/towpath/towpath"
)

// session is one live registration of an agent.
type session struct {
	id       towpath.SessionID
	seq      uint64
	agent    string
	class    string
	slots    int
	labels   []string
	draining bool
	over     bool

	used     int
	suspects int                              // running attempts of units that are charged with a loss: at most one
	attempts []*attempt                       // not ended, or abandoned; in the order of their offers
	builds   map[towpath.BuildNumber]*binding // for look-ups only
	speed    int64                            // thousandths: 1000 is average
	asideN   int                              // offers in a row that were not begun in time
	aside    time.Time                        // no offers before this

	lease  time.Time // not part of the events: whoever replays grants a whole one
	graces int       // leases granted in a row because the driver slept
}

func (x *session) free() int { return x.slots - x.used }

func (x *session) hear(until time.Time) {
	if until.After(x.lease) {
		x.lease = until
	}
	x.graces = 0
}

func (x *session) carries(labels []string) bool {
	for _, l := range labels {
		if !slices.Contains(x.labels, l) {
			return false
		}
	}
	return true
}

func (x *session) drop(a *attempt) {
	if i := slices.Index(x.attempts, a); i >= 0 {
		x.attempts = slices.Delete(x.attempts, i, i+1)
		x.used -= a.slots
		if a.suspect {
			x.suspects--
		}
	}
}

// ended remembers why sessions are gone, so that late calls are told. It is bounded: of older ones only the fact is
// known that they do not live.
type ended struct {
	reason map[towpath.SessionID]string
	order  []towpath.SessionID
}

const rememberEnded = 4096

func (g *ended) add(id towpath.SessionID, reason string) {
	if len(g.order) >= rememberEnded {
		delete(g.reason, g.order[0])
		g.order = g.order[1:]
	}
	g.reason[id] = reason
	g.order = append(g.order, id)
}

// binding is what one build knows of one session.
type binding struct {
	sess    *session
	matches bool // labels and slots suffice
	setup   setupState
	active  int // attempts of the build that this session has not ended
	runs    int // of those, the ones that run atoms
	used    bool
	torn    bool
}

type setupState string

const (
	setupNone   setupState = ""
	setupRuns   setupState = "runs"
	setupDone   setupState = "done"
	setupFailed setupState = "failed"
)

// usable says whether the session may get new work of the build, once it has room.
func (g *binding) usable() bool {
	return g.matches && g.setup != setupFailed && !g.sess.draining && !g.sess.over
}

// live finds the session that speaks, and renews its lease.
func (s *State) liveSession(now time.Time, id towpath.SessionID) (*session, error) {
	if x := s.sessions[id]; x != nil {
		x.hear(now.Add(s.cfg.Lease))
		return x, nil
	}
	if why, ok := s.ended.reason[id]; ok {
		return nil, towpath.Errorf(towpath.CodeSessionLost, "session %s has ended: %s; nothing of it counts any more, say hello again", id, why)
	}
	return nil, towpath.Errorf(towpath.CodeSessionLost, "session %s is not known here; nothing of it counts, say hello again", id)
}

func (s *State) hello(now time.Time, in towpath.Hello) error {
	if s.sessions[in.Session] != nil {
		_, err := s.liveSession(now, in.Session)
		return err
	}
	if _, ok := s.ended.reason[in.Session]; ok {
		_, err := s.liveSession(now, in.Session)
		return err
	}
	if in.Session == "" || in.Slots < 1 {
		return towpath.Errorf(towpath.CodeUsage, "agent %q said hello with session %q and %d slots; it needs an id and at least one slot", in.Agent, in.Session, in.Slots)
	}
	s.emit(now, 0, towpath.SessionOpened(in))
	if x := s.sessions[in.Session]; x != nil {
		x.hear(now.Add(s.cfg.Lease))
	}
	return nil
}

// endSession ends a session and all that it had. Lost says that it did not end by its own plan.
func (s *State) endSession(now time.Time, x *session, lost bool, reason string) {
	attempts := slices.Clone(x.attempts)
	s.emit(now, 0, towpath.SessionEnded{Session: x.id, Lost: lost, Reason: reason})
	for _, a := range attempts {
		if a.abandoned || s.bug == bugLeaveLost {
			continue
		}
		s.emit(now, a.build.number, towpath.AttemptEnded{
			Attempt: a.id, Session: x.id, Outcome: towpath.OutcomeErrored, Lost: true, Reason: "worker " + x.agent + " was lost: " + reason,
		})
	}
	s.touchAll()
}

// endDrained ends a draining session that has nothing left to do.
func (s *State) endDrained(now time.Time, x *session) {
	if !x.draining || x.over || len(x.attempts) > 0 {
		return
	}
	for _, b := range s.live {
		if g := x.builds[b.number]; g != nil && b.owesTeardown(g) {
			return
		}
	}
	s.endSession(now, x, false, "drained")
}
