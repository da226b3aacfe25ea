package sched

import (
	"time"
)

// dueKind names what ends by itself. The order settles ties: leases first, so that a lost session's attempts are lost
// and not late.
type dueKind int

const (
	dueLease    dueKind = iota // a session is lost
	dueAttempt                 // an attempt was not begun, ran too long, or did not stop
	dueRecall                  // a recall lapses
	dueAside                   // a session may be offered work again
	dueListing                 // a build's listing took too long
	dueQueue                   // a build has had no worker for too long
	dueBuild                   // a build took too long
	dueTeardown                // a build's teardowns took too long
)

// due is one deadline. It is checked against its object when it comes up: an object that has ended, or whose deadline
// has moved, makes it void.
type due struct {
	at      time.Time
	kind    dueKind
	seq     uint64 // of the object: settles ties
	sess    *session
	attempt *attempt
	build   *build
}

func (d *due) before(o *due) bool {
	if !d.at.Equal(o.at) {
		return d.at.Before(o.at)
	}
	if d.kind != o.kind {
		return d.kind < o.kind
	}
	return d.seq < o.seq
}

// actual is when the object says that this deadline is; zero: never.
func (d *due) actual() time.Time {
	switch d.kind {
	case dueLease:
		if d.sess.over {
			return time.Time{}
		}
		return d.sess.lease
	case dueAside:
		if d.sess.over {
			return time.Time{}
		}
		return d.sess.aside
	case dueAttempt:
		if d.attempt.over {
			return time.Time{}
		}
		return d.attempt.ends()
	case dueRecall:
		if d.attempt.over {
			return time.Time{}
		}
		return d.attempt.recallBy
	case dueListing:
		return d.build.listingEnds()
	case dueQueue:
		return d.build.queueEnds()
	case dueBuild:
		if d.build.state.Final() {
			return time.Time{}
		}
		return d.build.deadline
	case dueTeardown:
		return d.build.teardownEnds()
	}
	return time.Time{}
}

// dueHeap is a binary heap in which void entries are found out late.
type dueHeap struct {
	q    []due
	kept int // length after the last clean-up
}

func (h *dueHeap) push(d due) {
	if d.at.IsZero() {
		return
	}
	if len(h.q) > 2*h.kept+1024 {
		h.clean()
	}
	h.q = append(h.q, d)
	h.up(len(h.q) - 1)
}

func (h *dueHeap) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.q[i].before(&h.q[p]) {
			return
		}
		h.q[i], h.q[p] = h.q[p], h.q[i]
		i = p
	}
}

func (h *dueHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.q) {
			return
		}
		if c+1 < len(h.q) && h.q[c+1].before(&h.q[c]) {
			c++
		}
		if !h.q[c].before(&h.q[i]) {
			return
		}
		h.q[i], h.q[c] = h.q[c], h.q[i]
		i = c
	}
}

// clean drops the void entries, so that a long deadline of something that ended soon does not stay in memory.
func (h *dueHeap) clean() {
	keep := h.q[:0]
	for _, d := range h.q {
		if at := d.actual(); !at.IsZero() && !at.Before(d.at) {
			keep = append(keep, d)
		}
	}
	clear(h.q[len(keep):])
	h.q = keep
	for i := len(h.q)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	h.kept = len(h.q)
}

func (h *dueHeap) removeTop() {
	n := len(h.q) - 1
	h.q[0] = h.q[n]
	h.q[n] = due{}
	h.q = h.q[:n]
	h.down(0)
}

// next brings the earliest entry that holds to the top and returns its time.
func (h *dueHeap) next() (time.Time, bool) {
	for len(h.q) > 0 {
		top := &h.q[0]
		at := top.actual()
		switch {
		case at.IsZero() || at.Before(top.at): // void, or there is an earlier entry for it that came up already
			h.removeTop()
		case at.After(top.at):
			top.at = at
			h.down(0)
		default:
			return top.at, true
		}
	}
	return time.Time{}, false
}

// pop takes the earliest entry that is due.
func (h *dueHeap) pop(now time.Time) (due, bool) {
	at, ok := h.next()
	if !ok || at.After(now) {
		return due{}, false
	}
	d := h.q[0]
	h.removeTop()
	return d, true
}
