package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
)

// renderer shows a build while it runs. Its methods are called from one goroutine; the tracker has already taken in the
// event that they are told of.
type renderer interface {
	event(t *tracker, e towpath.NumberedEvent)
	// result is an atom that has ended, with its cases if wantsCases.
	result(t *tracker, atom int, cases []towpath.CaseInfo)
	// trouble is something that people must read: a failed atom, set-up or listing, with the text to show.
	trouble(t *tracker, what trouble)
	tick(t *tracker, now time.Time)
	finish(t *tracker, b towpath.BuildInfo, now time.Time)
	wantsCases() bool
}

// trouble is what went wrong with an atom or a step of a build, and what to show of it.
type trouble struct {
	name   string
	state  string // failed, flaky, lost, quarantined, or unread: what to show of it could not be had
	reason string
	cases  []towpath.CaseInfo // those that failed or are unfinished
	output string             // where no case tells more: the end of the log
	cut    bool               // output is not the whole log
}

// tailBytes is how much of the end of a log is shown beside a failure, at most.
const tailBytes = 8 << 10

// watcher follows a build to its end and drives a renderer.
type watcher struct {
	client *client.Client
	view   renderer
	kill   <-chan struct{}
}

// errKilled is why a watch ended at a second interrupt.
var errKilled = towpath.Errorf(towpath.CodeCanceled, "interrupted twice: not waiting for the build to wind down")

type eventOrError struct {
	event towpath.NumberedEvent
	err   error
}

// watch follows build n until its last event. When ctx ends it asks once for the build's cancellation and goes on
// watching; a second interrupt ends it at once. It returns the build as it finally stands.
func (w *watcher) watch(ctx context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error) {
	life := context.WithoutCancel(ctx)
	reading, stop := context.WithCancel(life)
	events, done := make(chan eventOrError), make(chan struct{})
	defer func() { stop(); <-done }()
	go func() {
		defer close(done)
		defer close(events)
		for e, err := range w.client.Events(reading, n, 0) {
			select {
			case events <- eventOrError{e, err}:
			case <-reading.Done():
				return
			}
		}
	}()
	t := newTracker(n)
	heard, looked := time.Now(), time.Time{} // from the events; after the server's health
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return w.finished(life, t)
			}
			if e.err != nil {
				return towpath.BuildInfo{}, e.err
			}
			heard, t.waiting = time.Now(), ""
			w.take(life, t, e.event)
		case now := <-ticks.C:
			if now.Sub(looked) > healthEvery && now.Sub(heard) > healthEvery {
				looked = now
				t.waiting = w.waiting(life)
			}
			w.view.tick(t, now)
		case <-interrupted:
			interrupted = nil
			err := w.client.Cancel(life, n, "interrupt")
			if err != nil && towpath.CodeOf(err) != towpath.CodeConflict { // a conflict: it has just ended
				return towpath.BuildInfo{}, err
			}
		case <-w.kill:
			return towpath.BuildInfo{}, errKilled
		}
	}
}

// healthEvery is how long nothing may happen before the server is asked why.
const healthEvery = 2 * time.Second

// waiting asks the server why nothing goes on, if it knows.
func (w *watcher) waiting(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	why, err := w.client.Health(ctx)
	if err != nil {
		return "the server does not answer"
	}
	return why
}

func (w *watcher) finished(ctx context.Context, t *tracker) (towpath.BuildInfo, error) {
	b, err := w.client.Build(ctx, t.build)
	if err != nil {
		return b, err
	}
	if !b.State.Final() {
		return b, towpath.Errorf(towpath.CodeUnavailable, "build %d is still %s, and its events have ended: `towpath show %d` tells more", b.Number, b.State, b.Number)
	}
	w.view.finish(t, b, b.Finished)
	return b, nil
}

// take applies an event and shows what follows from it.
func (w *watcher) take(ctx context.Context, t *tracker, e towpath.NumberedEvent) {
	var kind towpath.AttemptKind
	number := 0
	ended, isEnd := e.Event.Body.(towpath.AttemptEnded)
	if isEnd {
		if a := t.attempts[ended.Attempt]; a != nil {
			kind, number = a.kind, a.number
		}
	}
	t.apply(e.Event)
	w.view.event(t, e)
	if isEnd && kind != towpath.AttemptRun && kind != "" {
		if ended.Outcome == towpath.OutcomeFailed || ended.Outcome == towpath.OutcomeTimedOut || ended.Outcome == towpath.OutcomeErrored {
			x := trouble{name: string(kind), state: "failed", reason: ended.Reason}
			x.output, x.cut = w.tail(ctx, t.build, towpath.LogQuery{Attempt: number})
			w.view.trouble(t, x)
		}
	}
	if f, ok := e.Event.Body.(towpath.AtomFinished); ok {
		w.atomFinished(ctx, t, f)
	}
}

func (w *watcher) atomFinished(ctx context.Context, t *tracker, f towpath.AtomFinished) {
	a := t.atom(f.Atom)
	if a == nil {
		return
	}
	var cases []towpath.CaseInfo
	bad := f.State == towpath.AtomFailed || f.State == towpath.AtomFlaky || f.State == towpath.AtomLost ||
		f.State == towpath.AtomQuarantined && f.Reason != ""
	if a.cases && (bad || w.view.wantsCases()) { // also of one that was canceled while it was run again
		for c, err := range w.client.AtomCases(ctx, t.build, f.Atom) {
			if err != nil { // the build's result does not hang on what can be shown of it
				w.view.trouble(t, trouble{name: a.name, state: "unread", reason: "its cases cannot be read: " + err.Error()})
				break
			}
			cases = append(cases, c)
		}
	}
	w.view.result(t, f.Atom, cases)
	if !bad {
		return
	}
	x := trouble{name: a.name, state: string(f.State), reason: f.Reason}
	told := false
	for _, c := range cases {
		if c.State == towpath.CaseFailed || c.State == towpath.CaseUnfinished || c.State == towpath.CaseFlaky || c.State == towpath.CaseQuarantined {
			x.cases = append(x.cases, c)
			told = told || c.Detail != ""
		}
	}
	if !told {
		x.output, x.cut = w.tail(ctx, t.build, towpath.LogQuery{Atom: a.name})
	}
	w.view.trouble(t, x)
}

// tail returns the end of the chosen logs, from a line's beginning, and whether something stands before it.
func (w *watcher) tail(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery) (text string, cut bool) {
	var buf []byte
	for piece, err := range w.client.Log(ctx, n, q, false) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				return "(its log cannot be read: " + err.Error() + ")", false
			}
			return "", false
		}
		if piece.Offset == 0 && piece.Gap == 0 {
			buf, cut = buf[:0], false // the next log begins: the last attempt's is the one to show
		}
		buf = append(buf, piece.Data...)
		if len(buf) > 2*tailBytes {
			buf = append(buf[:0], buf[len(buf)-tailBytes:]...)
			cut = true
		}
	}
	if len(buf) > tailBytes {
		buf, cut = buf[len(buf)-tailBytes:], true
	}
	s := strings.ToValidUTF8(string(buf), "\ufffd")
	if cut {
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		}
	}
	return s, cut
}
