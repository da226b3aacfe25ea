package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

// errReplay means that stored events do not fit together: no retry helps.
var errReplay = errors.New("replay")

// reload drops the state and makes it again out of the store. Sessions are told again what they may not have been told.
func (l *Loop) reload(ctx context.Context) error {
	began := time.Now()
	l.state = sched.New(l.cfg.Sched)
	l.seqs = map[towpath.BuildNumber]int64{}
	l.winding = map[towpath.BuildNumber]bool{}
	l.index.reset()
	var untold untold
	events := 0
	for e, err := range l.cfg.Store.Replay(ctx, l.cfg.Owner) {
		if err != nil {
			return err
		}
		if err := l.state.Apply(e.Event); err != nil {
			return fmt.Errorf("%w event %d of build %d: %w", errReplay, e.Seq, e.Event.Build, err)
		}
		events++
		l.seqs[e.Event.Build] = e.Seq
		l.index.follow([]towpath.Event{e.Event})
		untold.follow(e.Event, l.state)
		if _, ok := e.Event.Body.(towpath.BuildFinished); ok {
			l.winding[e.Event.Build] = true
		}
	}
	for _, n := range l.index.unnamed() {
		b, err := l.cfg.Store.Build(ctx, n)
		if err != nil {
			return fmt.Errorf("replay build %d: %w", n, err)
		}
		l.index.name(n, b.Project)
	}
	l.state.Resume(time.Now())
	for _, cmd := range untold.commands() {
		l.send(cmd)
	}
	l.log.Debug("events replayed", "events", events, "took", time.Since(began))
	return nil
}

// untold collects commands of which it is not known that their session has them.
type untold struct {
	order   []towpath.AttemptID
	waiting map[towpath.AttemptID][]towpath.Command
}

func (u *untold) follow(e towpath.Event, s *sched.State) {
	switch v := e.Body.(type) {
	case towpath.AttemptOffered:
		if u.waiting == nil {
			u.waiting = map[towpath.AttemptID][]towpath.Command{}
		}
		u.order = append(u.order, v.Attempt)
		u.waiting[v.Attempt] = sched.Commands(e, s)
	case towpath.AttemptStarted:
		u.waiting[v.Attempt] = nil
	case towpath.AttemptStopped:
		u.waiting[v.Attempt] = append(u.waiting[v.Attempt], sched.Commands(e, s)...)
	case towpath.AttemptEnded:
		delete(u.waiting, v.Attempt)
	}
}

func (u *untold) commands() []towpath.Command {
	var cmds []towpath.Command
	for _, id := range u.order {
		cmds = append(cmds, u.waiting[id]...)
	}
	return cmds
}
