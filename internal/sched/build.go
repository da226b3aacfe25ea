package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// What holds where a job says nothing.
const (
	defaultBuild = time.Hour
	defaultSetup = 10 * time.Minute
	defaultQueue = 10 * time.Minute
	defaultLost  = 3
	setupTries   = 3 // distinct workers on which setup may fail
)

// build is one unfinished build, or a finished one that still winds down.
type build struct {
	number   towpath.BuildNumber
	job      *towpath.Job
	state    towpath.BuildState
	reason   string
	since    time.Time
	deadline time.Time
	touched  bool

	bindings  []*binding // of live sessions, in the order of their hellos
	matching  int        // of those, how many are usable
	width     int        // attempts that can run at once on them
	peak      int        // the largest width so far
	noneSince time.Time  // since when none was usable; zero: one is

	active    []*attempt // not ended and not abandoned, by number
	numbers   int
	running   int // slots taken by active attempts
	runs      int // active attempts that run atoms
	listBy    time.Time
	listLost  []string // agents lost while listing
	setupLost []string // agents lost in setup
	setupFail []string // "agent: reason" of each failed setup

	atoms      []*atom
	unfinished int
	cases      int           // that were reported, by all attempts
	begun      time.Time     // when its first attempt started; zero: none has
	overlap    time.Duration // what atoms took while others of the same command ran, in attempts that have ended
	queue      queue         // units that wait, never-run ones first, then longest first
	alone      queue         // units that wait and must be a batch of their own
	waitSum    time.Duration
	waitNew    int           // units in queue without an estimate
	usual      time.Duration // estimate of what was never run; 0: learned from this build
	newSum     time.Duration
	newCount   int64
	decided    []int // atoms whose result is known and not yet said
	splitDone  bool
	fixed      time.Duration // what a subjob of this job costs before its first atom begins; 0: see State.fixed

	flawed     bug // see State.bug
	tearing    bool
	teardownBy time.Time
}

func (b *build) limit() time.Duration {
	if b.job.Timeouts.Build > 0 {
		return b.job.Timeouts.Build
	}
	return defaultBuild
}

func (b *build) setupLimit() time.Duration {
	if b.job.Timeouts.Setup > 0 {
		return b.job.Timeouts.Setup
	}
	return defaultSetup
}

func (b *build) queueLimit() time.Duration {
	if b.job.Timeouts.Queue > 0 {
		return b.job.Timeouts.Queue
	}
	return defaultQueue
}

func (b *build) lostLimit() int {
	if b.job.Retries.Lost > 0 {
		return b.job.Retries.Lost
	}
	return defaultLost
}

func (b *build) slots() int { return max(1, b.job.Slots) }

// waits says whether something of the build is to be offered.
func (b *build) waits() bool {
	switch b.state {
	case towpath.BuildListing:
		return len(b.active) == 0
	case towpath.BuildRunning:
		return b.unfinished > 0 && b.queue.n+b.alone.n > 0
	case towpath.BuildPassed, towpath.BuildFailed, towpath.BuildCanceled, towpath.BuildErrored:
	}
	return false
}

func (b *build) queueEnds() time.Time {
	if b.state.Final() || b.noneSince.IsZero() || !b.waits() || b.flawed == bugNoQueueLimit {
		return time.Time{}
	}
	return b.noneSince.Add(b.queueLimit())
}

func (b *build) listingEnds() time.Time {
	if b.state != towpath.BuildListing {
		return time.Time{}
	}
	return b.listBy
}

func (b *build) teardownEnds() time.Time {
	if b.state.Final() && slices.ContainsFunc(b.bindings, b.owesTeardown) || !b.state.Final() && b.tearing {
		return b.teardownBy
	}
	return time.Time{}
}

// noWorker says why the queue limit ended the build.
func (b *build) noWorker() string {
	text := "no worker" + b.wanted()
	text += " for " + short(b.queueLimit())
	if len(b.setupFail) > 0 {
		text += "; setup failed on " + b.setupFail[len(b.setupFail)-1]
	}
	return text
}

// wanted says what a worker must have.
func (b *build) wanted() string {
	var with []string
	if len(b.job.Labels) > 0 {
		with = append(with, "labels "+strings.Join(b.job.Labels, ", "))
	}
	if n := b.slots(); n > 1 {
		with = append(with, fmt.Sprintf("%d slots", n))
	}
	if len(with) == 0 {
		return ""
	}
	return " with " + strings.Join(with, " and ")
}

// short writes a duration without zero parts: 10m, not 10m0s.
func short(d time.Duration) string {
	t := d.String()
	if strings.HasSuffix(t, "m0s") {
		t = t[:len(t)-2]
	}
	if strings.HasSuffix(t, "h0m") {
		t = t[:len(t)-2]
	}
	return t
}

// bind adds a live session to what the build knows.
func (b *build) bind(x *session) {
	g := &binding{sess: x, matches: x.slots >= b.slots() && x.carries(b.job.Labels)}
	b.bindings = append(b.bindings, g)
	x.builds[b.number] = g
}

func (b *build) unbind(x *session) {
	b.bindings = slices.DeleteFunc(b.bindings, func(g *binding) bool { return g.sess == x })
}

// perAgent is how many attempts of the build a session may run at once; 0: no bound. Report files that a glob finds in the
// workspace are told apart by when they were written only, so that their attempts run one after the other there: the next
// waits here, where its time has not begun, and not on the agent, where it has.
func (b *build) perAgent() int {
	if r := b.job.Report; r.Kind == towpath.ReportJUnit && r.Glob != "" {
		return 1
	}
	return b.job.Parallel.PerAgent
}

// recount finds which sessions are usable. It follows every change of a session or of a setup.
func (s *State) recount(at time.Time, b *build) {
	if b.state.Final() {
		return
	}
	b.matching, b.width = 0, 0
	for _, g := range b.bindings {
		if !g.usable() {
			continue
		}
		b.matching++
		w := g.sess.slots / b.slots()
		if n := b.perAgent(); n > 0 {
			w = min(w, n)
		}
		b.width += w
	}
	if n := b.job.Parallel.Max; n > 0 {
		b.width = min(b.width, n)
	}
	b.peak = max(b.peak, b.width)
	switch {
	case b.matching > 0:
		b.noneSince = time.Time{}
	case b.noneSince.IsZero():
		b.noneSince = at
	}
	s.armQueue(b)
}

func (s *State) armQueue(b *build) {
	if !b.noneSince.IsZero() {
		s.due.push(due{at: b.queueEnds(), kind: dueQueue, seq: uint64(b.number), build: b})
	}
}

// owesTeardown says whether a session has run something of the build and not yet been cleaned up.
func (b *build) owesTeardown(g *binding) bool {
	return b.job.Teardown != "" && g.used && !g.torn && !g.sess.over
}

// wound says whether nothing of a finished build is left to happen.
func (b *build) wound() bool {
	if len(b.active) > 0 {
		return false
	}
	return !slices.ContainsFunc(b.bindings, b.owesTeardown)
}

// queue holds waiting units in the order in which they are to run. An entry whose unit has left the queue otherwise is
// skipped when it comes up.
type queue struct {
	items []towpath.Unit
	head  int
	n     int // entries that still wait
}

// put files a unit where it belongs.
func (b *build) put(w towpath.Unit) {
	u := b.unit(w)
	q := &b.queue
	u.queued = inQueue
	if u.alone {
		q = &b.alone
		u.queued = inAlone
	}
	i, left := slices.BinarySearchFunc(q.items[q.head:], w, b.order)
	switch {
	case left: // its entry of an earlier stay is still in its place
	case q.head > 0 && i <= len(q.items[q.head:])/2:
		// What waits again was near the front. A lost batch of thousands must not move the whole queue for each.
		copy(q.items[q.head-1:], q.items[q.head:q.head+i])
		q.head--
		q.items[q.head+i] = w
	default:
		q.items = slices.Insert(q.items, q.head+i, w)
	}
	q.n++
	b.count(u, 1)
}

// count keeps the sum of what waits.
func (b *build) count(u *unit, sign int) {
	if u.mean > 0 {
		b.waitSum += time.Duration(sign) * u.mean
	} else {
		b.waitNew += sign
	}
}

// leave takes a unit out of its queue, wherever its entry lies.
func (b *build) leave(u *unit) {
	switch u.queued {
	case inNone:
		return
	case inQueue:
		b.queue.n--
	case inAlone:
		b.alone.n--
	}
	u.queued = inNone
	b.count(u, -1)
}

// order sorts waiting units: never run first, then by the longest that they may take, then as listed.
func (b *build) order(v, w towpath.Unit) int {
	x, y := b.unit(v), b.unit(w)
	switch {
	case (x.mean == 0) != (y.mean == 0):
		if x.mean == 0 {
			return -1
		}
		return 1
	case x.mean+x.dev != y.mean+y.dev:
		if x.mean+x.dev > y.mean+y.dev {
			return -1
		}
		return 1
	case v.Atom != w.Atom:
		return v.Atom - w.Atom
	}
	return v.Part - w.Part
}

// peek returns the i-th entry at or after from that still waits in this queue.
func (b *build) peek(q *queue, from int, kind queued) int {
	for i := from; i < len(q.items); i++ {
		if b.unit(q.items[i]).queued == kind {
			return i
		}
	}
	return len(q.items)
}

// compact drops the entries before the first that waits.
func (b *build) compact(q *queue, kind queued) {
	if q.n == 0 {
		q.items, q.head = q.items[:0], 0
		return
	}
	q.head = b.peek(q, q.head, kind)
}
