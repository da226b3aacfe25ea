package simtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/sched"
)

// Load is a build that nothing disturbs, on agents that do exactly what they are told.
type Load struct {
	Seed     uint64
	Atoms    int
	Sigma    float64       // of the log-normal durations, whose median is Median
	Median   time.Duration // 0: 1 s
	Agents   int
	Slots    int           // of each agent; 0: 1
	Speeds   float64       // agents are up to so much faster or slower: 0.2 is ±20 %
	Fixed    time.Duration // of each subjob, before its first atom starts
	PerAtom  bool          // the command starts once an atom: batches can be recalled
	Known    float64       // share of atoms that ran before
	Noise    float64       // by how much what is known is wrong: 0.3 is ±30 %
	Batch    towpath.Batch
	OnEvents func(s *sched.State, n int) // after each step, with the number of events so far; may be nil
}

// Span is what came of a Load.
type Span struct {
	Took     time.Duration // virtual
	Bound    time.Duration // no schedule could have been shorter
	Attempts int
	Recalled int // units
	Steps    int
	Events   int
	State    towpath.BuildState
}

// Over is how far above the bound it was: 0.02 is 2 %.
func (s Span) Over() float64 { return float64(s.Took)/float64(s.Bound) - 1 }

type worker struct {
	speed float64
	sess  towpath.SessionID
}

type run struct {
	at    time.Duration
	seq   int
	w     *worker
	offer towpath.Offer
	units []towpath.OfferedUnit
	next  int // unit that begins at at, or ends then if one runs
	runs  bool
}

type bench struct {
	load Load
	took []time.Duration
	now  time.Duration
	seq  int
	s    *sched.State
	by   map[towpath.SessionID]*worker
	runs runHeap
	live map[towpath.AttemptID]*run
	span Span
	err  error
}

// runHeap is ordered by time, then by age.
type runHeap []*run

func (h runHeap) less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h *runHeap) push(r *run) {
	*h = append(*h, r)
	q := *h
	for i := len(q) - 1; i > 0; {
		p := (i - 1) / 2
		if !q.less(i, p) {
			return
		}
		q[i], q[p] = q[p], q[i]
		i = p
	}
}

func (h *runHeap) pop() *run {
	q := *h
	top := q[0]
	n := len(q) - 1
	q[0], q[n] = q[n], nil
	q = q[:n]
	*h = q
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			return top
		}
		if c+1 < n && q.less(c+1, c) {
			c++
		}
		if !q.less(c, i) {
			return top
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
}

// Makespan runs a load to its end in virtual time.
func Makespan(load Load) (Span, error) {
	b := &bench{load: load, by: map[towpath.SessionID]*worker{}, live: map[towpath.AttemptID]*run{}}
	rng := rand.New(rand.NewPCG(load.Seed, 7))
	if load.Median == 0 {
		load.Median = time.Second
	}
	ids := 0
	b.s = sched.New(sched.Config{Lease: 10_000 * time.Hour, NewID: func() string { ids++; return fmt.Sprintf("t%d", ids) }})
	slots := max(1, load.Slots)
	var power float64
	for i := range load.Agents {
		w := &worker{speed: 1 + load.Speeds*(2*rng.Float64()-1), sess: towpath.SessionID(fmt.Sprintf("s%d", i))}
		power += w.speed * float64(slots)
		b.by[w.sess] = w
		b.give(towpath.Hello{Session: w.sess, Agent: string(w.sess), Slots: slots, Class: "agent"})
	}
	names := make([]string, load.Atoms)
	est := make(map[string]towpath.Estimate, load.Atoms)
	var sum, longest time.Duration
	b.took = make([]time.Duration, load.Atoms)
	for i := range names {
		names[i] = fmt.Sprintf("pkg/%06d", i)
		d := time.Duration(float64(load.Median) * math.Exp(load.Sigma*rng.NormFloat64()))
		b.took[i] = d
		sum += d
		longest = max(longest, d)
		if rng.Float64() < load.Known {
			mean := time.Duration(float64(d) * (1 + load.Noise*(2*rng.Float64()-1)))
			est[names[i]] = towpath.Estimate{Mean: mean, Dev: d / 10, Passes: 9}
		}
	}
	b.span.Bound = max(time.Duration(float64(sum)/power), longest)
	day := 10_000 * time.Hour
	b.give(towpath.Submit{Build: 1, Estimates: est, Job: towpath.Job{
		Run: "run", PerAtom: load.PerAtom, Batch: load.Batch, Atoms: towpath.AtomSource{List: names},
		Timeouts: towpath.Timeouts{Queue: day, Setup: day, Atom: time.Hour, Build: day},
	}})
	for b.err == nil && len(b.runs) > 0 {
		r := b.runs.pop()
		b.now = r.at
		b.goOn(r)
	}
	b.span.Took = b.now
	if v, ok := b.s.Build(1); ok {
		b.span.State = v.State
	}
	if b.err == nil && b.span.State != towpath.BuildPassed {
		b.err = fmt.Errorf("the build is %s", b.span.State)
	}
	return b.span, b.err
}

func (b *bench) give(in towpath.Input) {
	if b.err != nil {
		return
	}
	b.span.Steps++
	events, err := b.s.Step(start.Add(b.now), in)
	if err != nil {
		b.err = fmt.Errorf("%T: %w", in, err)
		return
	}
	b.span.Events += len(events)
	for i := range events {
		for _, c := range sched.Commands(events[i], b.s) {
			switch c := c.(type) {
			case towpath.Offer:
				b.span.Attempts++
				b.seq++
				r := &run{at: b.now + b.load.Fixed, seq: b.seq, w: b.by[c.Session], offer: c, units: c.Units}
				b.live[c.Attempt] = r
				b.runs.push(r)
				b.give(towpath.Started{Session: c.Session, Attempt: c.Attempt})
			case towpath.Recall:
				b.giveBack(c)
			case towpath.Stop:
			}
		}
	}
	if b.load.OnEvents != nil {
		b.load.OnEvents(b.s, b.span.Events)
	}
}

func (b *bench) giveBack(c towpath.Recall) {
	r := b.live[c.Attempt]
	if r == nil {
		return
	}
	first := r.next
	if r.runs {
		first++
	}
	n := min(c.Most, max(0, len(r.units)-max(1, first)))
	in := towpath.Recalled{Session: c.Session, Attempt: c.Attempt}
	for _, u := range r.units[len(r.units)-n:] {
		in.Units = append(in.Units, u.Unit)
	}
	r.units = r.units[:len(r.units)-n]
	b.span.Recalled += n
	b.give(in)
}

func (b *bench) goOn(r *run) {
	if r.runs {
		u := r.units[r.next]
		d := time.Duration(float64(b.took[u.Atom]) / r.w.speed)
		b.give(towpath.AtomDone{
			Session: r.w.sess, Attempt: r.offer.Attempt, Atom: u.Atom,
			Report: towpath.AtomReport{Outcome: towpath.OutcomePassed, Duration: d},
		})
		r.next++
		r.runs = false
	}
	if r.next >= len(r.units) {
		delete(b.live, r.offer.Attempt)
		b.give(towpath.Done{Session: r.w.sess, Attempt: r.offer.Attempt, Outcome: towpath.OutcomePassed})
		return
	}
	u := r.units[r.next]
	b.give(towpath.AtomBegan{Session: r.w.sess, Attempt: r.offer.Attempt, Atom: u.Atom})
	r.runs = true
	r.at = b.now + time.Duration(float64(b.took[u.Atom])/r.w.speed)
	b.seq++
	r.seq = b.seq
	b.runs.push(r)
}
