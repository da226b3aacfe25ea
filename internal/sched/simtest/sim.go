// Package simtest runs the decider of internal/sched under virtual time, with agents, a network and a driver that fail
// as real ones do, and checks its promises after every step. The tests of internal/sched and the benchmarks call it. It
// reads no clock and starts no goroutine: a seed gives the same schedule each time.
package simtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

// Options says how to run one schedule. Everything but Seed may be left out.
type Options struct {
	Seed    uint64
	New     func(sched.Config) *sched.State // nil: sched.New
	Script  bool                            // keep the script of all inputs
	Stored  bool                            // replay what the events are in storage, not as they were made
	Reached *Reached                        // counts are added to it
}

// Result says what a schedule did.
type Result struct {
	Steps  int
	Events int
	Faults int
	Atoms  int
	Err    error  // the first broken promise
	Script string // replayable by Replay, if it was asked for
}

// start is when every schedule begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// horizon is when every build must long have ended.
const horizon = time.Hour

type simKind uint8

const (
	simInput   simKind = iota // a message reaches the driver
	simCommand                // a command reaches an agent
	simRefusal                // a refusal reaches an agent
	simBeat                   // an agent beats
	simProc                   // a running attempt goes on
	simTick                   // the driver's timer fires
	simJoin                   // an agent says hello
	simWake                   // the driver goes on
	simSubmit
)

type simEvent struct {
	at    time.Duration
	seq   uint64
	kind  simKind
	agent *agent
	gen   int
	proc  *proc
	in    towpath.Input
	cmd   towpath.Command
	id    towpath.AttemptID
}

// world is one schedule under way.
type world struct {
	opt     Options
	rng     *rand.Rand
	now     time.Duration
	offset  time.Duration // of the driver's clock
	slack   time.Duration // by how much sleeps and jumps may have delayed things
	heap    []simEvent
	seq     uint64
	cfg     sched.Config
	state   *sched.State
	log     []towpath.Event
	ledger  *ledger
	agents  []*agent
	bySess  map[towpath.SessionID]*agent
	heard   map[towpath.SessionID]time.Duration
	read    map[towpath.SessionID]int // number of the driver's sleeps before it last read from a session
	sleeps  int
	slept   time.Duration // the last time
	builds  []*plan
	ids     int
	down    bool // the driver takes no input until simWake
	inbox   []towpath.Input
	tickAt  time.Duration
	refuse  bool // the next write fails
	faults  int
	toFault int // steps until the next
	left    int
	next    [3]int // messages to lose, to double, to delay
	recent  []towpath.Command
	script  strings.Builder
	res     Result
}

// Run runs one schedule to its end, or to the first broken promise.
func Run(opt Options) Result {
	w := &world{
		opt: opt, rng: rand.New(rand.NewPCG(opt.Seed, 0x746f7770617468)), ledger: newLedger(),
		bySess: map[towpath.SessionID]*agent{}, heard: map[towpath.SessionID]time.Duration{},
		read: map[towpath.SessionID]int{},
	}
	if w.opt.New == nil {
		w.opt.New = sched.New
	}
	w.cfg = sched.Config{NewID: func() string { w.ids++; return fmt.Sprintf("t%d", w.ids) }}
	w.state = w.opt.New(w.cfg)
	w.left = 5 + w.rng.IntN(8)
	w.toFault = 1 + w.rng.IntN(15)
	w.plan()
	for w.res.Err == nil && !w.enough() && len(w.heap) > 0 {
		e := w.pop()
		if e.at > horizon {
			w.fail("stuck: %s", w.unfinished())
			break
		}
		w.now = max(w.now, e.at)
		w.handle(e)
	}
	if w.res.Err == nil && !w.over() {
		w.fail("stuck: nothing will happen any more, and %s", w.unfinished())
	}
	if w.res.Err == nil {
		w.compare()
	}
	w.res.Faults = w.faults
	w.res.Events = len(w.log)
	w.res.Script = w.script.String()
	return w.res
}

func (w *world) fail(format string, args ...any) {
	if w.res.Err == nil {
		w.res.Err = fmt.Errorf("seed %d, step %d, at %v: "+format, append([]any{w.opt.Seed, w.res.Steps, w.now}, args...)...)
	}
}

// minFaults is how many faults each schedule has at least.
const minFaults = 5

// enough says whether the schedule may end. If all is over before enough has gone wrong, there is one more build, and one more
// machine for it.
func (w *world) enough() bool {
	if !w.over() {
		return false
	}
	if w.faults >= minFaults {
		return true
	}
	w.toFault = min(w.toFault, 4)
	w.addBuild(5)
	a := &agent{name: fmt.Sprintf("x%d", len(w.agents)), slots: 2, labels: []string{"linux"}, rejoins: true}
	w.agents = append(w.agents, a)
	w.push(simEvent{at: w.now + w.between(0, time.Second), kind: simJoin, agent: a})
	return false
}

// over says whether all builds have ended and wound down.
func (w *world) over() bool {
	if len(w.ledger.order) < len(w.builds) {
		return false
	}
	for _, b := range w.ledger.order {
		if !b.state.Final() || b.active > 0 {
			return false
		}
		if v, ok := w.state.Build(b.number); ok && !v.Wound {
			return false
		}
	}
	return true
}

func (w *world) unfinished() string {
	var text []string
	for _, b := range w.ledger.order {
		if v, ok := w.state.Build(b.number); ok && (!b.state.Final() || !v.Wound) {
			text = append(text, fmt.Sprintf("build %d is %s with %d attempts; it waits for %v", b.number, v.State, len(v.Attempts), w.state.Waiting(b.number)))
		}
	}
	return strings.Join(text, "; ")
}

func (w *world) push(e simEvent) {
	w.seq++
	e.seq = w.seq
	w.heap = append(w.heap, e)
	for i := len(w.heap) - 1; i > 0; {
		p := (i - 1) / 2
		if !w.less(i, p) {
			break
		}
		w.heap[i], w.heap[p] = w.heap[p], w.heap[i]
		i = p
	}
}

func (w *world) less(i, j int) bool {
	a, b := &w.heap[i], &w.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}

func (w *world) pop() simEvent {
	e := w.heap[0]
	n := len(w.heap) - 1
	w.heap[0] = w.heap[n]
	w.heap[n] = simEvent{}
	w.heap = w.heap[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && w.less(c+1, c) {
			c++
		}
		if !w.less(c, i) {
			break
		}
		w.heap[i], w.heap[c] = w.heap[c], w.heap[i]
		i = c
	}
	return e
}

func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)+1))
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) handle(e simEvent) {
	switch e.kind {
	case simInput:
		w.arrive(e.in)
	case simSubmit:
		w.arrive(e.in)
	case simTick:
		if e.at == w.tickAt && !w.down {
			w.step(towpath.Tick{})
		}
	case simWake:
		w.wake()
	case simJoin:
		w.join(e.agent)
	case simCommand, simRefusal, simBeat, simProc:
		w.agentEvent(e)
	}
}

// arrive brings a message to the driver.
func (w *world) arrive(in towpath.Input) {
	if id := speaker(in); id != "" {
		w.heard[id] = w.now
	}
	if w.down {
		w.inbox = append(w.inbox, in)
		return
	}
	w.step(in)
}

// wake lets the driver go on after a sleep: its timer is overdue, and may come before all that it has not read.
func (w *world) wake() {
	if !w.down {
		return
	}
	w.down = false
	w.sleeps++
	inbox := w.inbox
	w.inbox = nil
	if w.chance(70) {
		w.step(towpath.Tick{})
	}
	for i, in := range inbox {
		if w.down { // put to sleep again
			w.inbox = append(w.inbox, inbox[i:]...)
			return
		}
		w.step(in)
	}
	w.schedule()
}

func (w *world) clock() time.Time { return start.Add(w.now + w.offset) }

// step gives the decider one input, and checks all that it promises.
func (w *world) step(in towpath.Input) {
	if w.res.Err != nil {
		return
	}
	w.maybeFault()
	if w.down {
		w.inbox = append(w.inbox, in)
		return
	}
	now := w.clock()
	w.res.Steps++
	w.read[speaker(in)] = w.sleeps
	if w.opt.Script {
		fmt.Fprintf(&w.script, "@%v %s\n", w.now+w.offset, Format(in))
	}
	events, err := w.state.Step(now, in)
	if w.refuse && len(events) > 0 {
		w.refuse = false
		w.noteAll(faultRefuse)
		if w.opt.Script {
			fmt.Fprintf(&w.script, "refused\n")
		}
		w.reload()
		w.push(simEvent{at: w.now + w.between(0, time.Second), kind: simInput, in: in})
		w.schedule()
		return
	}
	by := speaker(in)
	if err != nil {
		w.refused(in, err)
	}
	for i := range events {
		if err := w.ledger.observe(events[i], by); err != nil {
			w.fail("%w", err)
			return
		}
		w.lostRightly(events[i])
	}
	w.log = append(w.log, events...)
	if err := w.state.Check(now); err != nil {
		w.fail("%w", err)
		return
	}
	if err := w.ledger.settled(now, w.slack+2*time.Second); err != nil {
		w.fail("%w", err)
		return
	}
	for i := range events {
		for _, c := range sched.Commands(events[i], w.state) {
			w.recent = append(w.recent, c)
			w.tell(c)
		}
	}
	if n := len(w.recent); n > 8 {
		w.recent = append(w.recent[:0], w.recent[n-8:]...)
	}
	w.schedule()
}

// lostRightly checks that a session which is lost for its silence was silent. A driver that sleeps three times before it
// reads what waits for it may be wrong, and one that sleeps so shortly that it does not notice, at the end of a lease.
func (w *world) lostRightly(e towpath.Event) {
	b, ok := e.Body.(towpath.SessionEnded)
	if !ok || !strings.HasPrefix(b.Reason, "not heard") {
		return
	}
	if quiet := w.now - w.heard[b.Session]; quiet < 14*time.Second && w.sleeps-w.read[b.Session] < 3 && w.slept > 6*time.Second {
		w.fail("session %s is lost, it was heard from %v ago", b.Session, quiet)
	}
}

// schedule sets the driver's timer.
func (w *world) schedule() {
	at, ok := w.state.Next()
	if !ok {
		return
	}
	due := max(w.now, at.Sub(start)-w.offset)
	if due != w.tickAt || due == w.now {
		w.tickAt = due
		w.push(simEvent{at: due, kind: simTick})
	}
}

// reload drops the state and replays what was stored, as a driver does that starts or whose write failed.
func (w *world) reload() {
	w.state = w.replay()
	w.state.Resume(w.clock())
	for id := range w.heard {
		w.heard[id] = w.now
	}
	w.tickAt = -1
}

// replay makes a state of the log.
func (w *world) replay() *sched.State {
	s := w.opt.New(w.cfg)
	for i := range w.log {
		e := w.log[i]
		if w.opt.Stored {
			text, err := json.Marshal(e)
			if err == nil {
				e = towpath.Event{}
				err = json.Unmarshal(text, &e)
			}
			if err != nil {
				w.fail("store event %d: %w", i+1, err)
				return s
			}
		}
		if err := s.Apply(e); err != nil {
			w.fail("replay event %d of %d: %w", i+1, len(w.log), err)
			return s
		}
	}
	return s
}

// compare replays the whole log and compares the states.
func (w *world) compare() {
	have := w.state.Dump()
	again := w.replay()
	if got := again.Dump(); !bytes.Equal(got, have) {
		at := 0
		for at < len(got) && at < len(have) && got[at] == have[at] {
			at++
		}
		from := max(0, at-80)
		w.fail("replay gives another state: …%s… instead of …%s…", got[from:min(len(got), at+40)], have[from:min(len(have), at+40)])
	}
}

// speaker is the session that says an input.
func speaker(in towpath.Input) towpath.SessionID {
	switch in := in.(type) {
	case towpath.Hello:
		return in.Session
	case towpath.Beat:
		return in.Session
	case towpath.Drain:
		return in.Session
	case towpath.Goodbye:
		return in.Session
	case towpath.Started:
		return in.Session
	case towpath.AtomBegan:
		return in.Session
	case towpath.AtomDone:
		return in.Session
	case towpath.Done:
		return in.Session
	case towpath.Recalled:
		return in.Session
	}
	return ""
}

// attemptIn is the attempt of which an input speaks.
func attemptIn(in towpath.Input) towpath.AttemptID {
	switch in := in.(type) {
	case towpath.Started:
		return in.Attempt
	case towpath.AtomBegan:
		return in.Attempt
	case towpath.AtomDone:
		return in.Attempt
	case towpath.Done:
		return in.Attempt
	case towpath.Recalled:
		return in.Attempt
	}
	return ""
}

func attemptTold(c towpath.Command) (towpath.SessionID, towpath.AttemptID) {
	switch c := c.(type) {
	case towpath.Offer:
		return c.Session, c.Attempt
	case towpath.Stop:
		return c.Session, c.Attempt
	case towpath.Recall:
		return c.Session, c.Attempt
	}
	return "", ""
}
