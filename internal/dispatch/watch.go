package dispatch

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

// watchRoom is how many events may wait for a watcher. One that is slower reads them from the store instead.
const watchRoom = 4096

// pollEvery is how often builds of other processes are looked at.
const pollEvery = 200 * time.Millisecond

// hub tells watchers what was stored. It never waits for one.
type hub struct {
	mu       sync.Mutex
	watchers map[towpath.BuildNumber]map[*watcher]bool // +checklocks:mu
}

type watcher struct {
	wake   chan struct{}           // holds one token while there may be something new
	events []towpath.NumberedEvent // guarded by the hub's mu
	missed bool                    // guarded by the hub's mu: there was no room
	deaf   bool                    // only wants to be woken
}

func newHub() hub { return hub{watchers: map[towpath.BuildNumber]map[*watcher]bool{}} }

func (h *hub) enter(n towpath.BuildNumber, deaf bool) *watcher {
	w := &watcher{wake: make(chan struct{}, 1), deaf: deaf}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[n] == nil {
		h.watchers[n] = map[*watcher]bool{}
	}
	h.watchers[n][w] = true
	return w
}

func (h *hub) leave(n towpath.BuildNumber, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[n], w)
	if len(h.watchers[n]) == 0 {
		delete(h.watchers, n)
	}
}

func (h *hub) take(w *watcher) (events []towpath.NumberedEvent, missed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, missed = w.events, w.missed
	w.events, w.missed = nil, false
	return events, missed
}

// publish hands stored events to watchers of their builds. seqs has the number of the last one of each stream.
func (h *hub) publish(b *store.Batch, seqs map[towpath.BuildNumber]int64) {
	for _, w := range h.put(b, seqs) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (h *hub) put(b *store.Batch, seqs map[towpath.BuildNumber]int64) []*watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) == 0 {
		return nil
	}
	var woken []*watcher
	left := map[towpath.BuildNumber]int64{} // events of the stream still to come
	for _, e := range b.Events {
		left[e.Build]++
	}
	for _, e := range b.Events {
		left[e.Build]--
		for w := range h.watchers[e.Build] {
			if len(w.events) >= watchRoom {
				w.events, w.missed = nil, true
			}
			if !w.missed && !w.deaf {
				w.events = append(w.events, towpath.NumberedEvent{Seq: seqs[e.Build] - left[e.Build], Event: e})
			}
		}
	}
	for _, c := range b.Logs {
		left[c.Build] = 0
	}
	for _, n := range b.Released {
		left[n] = 0
	}
	for n := range left {
		for w := range h.watchers[n] {
			woken = append(woken, w)
		}
	}
	return woken
}

// Watch yields the events of a build from sequence number from on, those to come as soon as they are stored, each once
// and in order, and ends with the build. A slow caller delays nobody.
func (l *Loop) Watch(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error] {
	return func(yield func(towpath.NumberedEvent, error) bool) {
		w := l.hub.enter(n, false)
		defer l.hub.leave(n, w)
		next := max(from, 1)
		give := func(e towpath.NumberedEvent) (goOn bool) {
			next = e.Seq + 1
			_, last := e.Event.Body.(towpath.BuildFinished)
			return yield(e, nil) && !last
		}
		for {
			// Asked before the events are read, so that a build which ends meanwhile is read to its end.
			b, err := l.cfg.Store.Build(ctx, n)
			if err != nil {
				yield(towpath.NumberedEvent{}, err)
				return
			}
			for e, err := range l.cfg.Store.Events(ctx, n, next) {
				if err != nil {
					yield(towpath.NumberedEvent{}, err)
					return
				}
				if !give(e) {
					return
				}
			}
			if b.State.Final() {
				return
			}
			for behind := false; !behind; {
				if err := l.wait(ctx, n, w); err != nil {
					yield(towpath.NumberedEvent{}, err)
					return
				}
				events, missed := l.hub.take(w)
				for _, e := range events {
					if e.Seq < next {
						continue
					}
					if e.Seq > next {
						missed = true
						break
					}
					if !give(e) {
						return
					}
				}
				behind = missed || !l.index.holds(n)
			}
		}
	}
}

// Settled waits until a build of this owner has ended and all of its attempts have wound down, its teardowns too. Every
// one of these has a deadline, so that this ends. For builds of others it returns at once.
func (l *Loop) Settled(ctx context.Context, n towpath.BuildNumber) error {
	w := l.hub.enter(n, true)
	defer l.hub.leave(n, w)
	for l.index.holds(n) {
		if err := l.wait(ctx, n, w); err != nil {
			return err
		}
		l.hub.take(w)
	}
	return nil
}

// wait ends when something of the build may be new.
func (l *Loop) wait(ctx context.Context, n towpath.BuildNumber, w *watcher) error {
	var poll <-chan time.Time
	if !l.index.holds(n) { // another process's, or over
		t := time.NewTimer(pollEvery)
		defer t.Stop()
		poll = t.C
	}
	select {
	case <-w.wake:
		return nil
	case <-poll:
		return nil
	case <-l.ended:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Log yields the log of a build in the order in which it comes, and ends with the build.
func (l *Loop) Log(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery) iter.Seq2[towpath.LogPiece, error] {
	return func(yield func(towpath.LogPiece, error) bool) {
		w := l.hub.enter(n, true)
		defer l.hub.leave(n, w)
		tail := l.cfg.Store.Tail(n, q)
		for {
			b, err := l.cfg.Store.Build(ctx, n)
			if err != nil {
				yield(towpath.LogPiece{}, err)
				return
			}
			for {
				pieces, err := tail.Next(ctx)
				if err != nil {
					yield(towpath.LogPiece{}, err)
					return
				}
				if len(pieces) == 0 {
					break
				}
				for _, p := range pieces {
					if !yield(p, nil) {
						return
					}
				}
			}
			if b.State.Final() && !l.index.holds(n) {
				return
			}
			if err := l.wait(ctx, n, w); err != nil {
				yield(towpath.LogPiece{}, err)
				return
			}
		}
	}
}
