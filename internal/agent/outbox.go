package agent

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/towpath/towpath/internal/wire"
)

// linger is how long a message that is in no hurry waits for others to travel with. Each journey ends in a transaction, so
// this bounds how many a session causes while many short atoms run; nobody notices it on a screen.
const linger = 20 * time.Millisecond

// batchBytes bounds what travels together.
const batchBytes = 1 << 20

// outbox numbers what a session has to say and keeps it until it is acknowledged. Only logs are bounded, by a window.
type outbox struct {
	wake   chan struct{} // holds one token while there may be something to send
	acked  chan struct{} // holds one token after an acknowledgement
	window *semaphore.Weighted
	room   int64 // of window

	mu     sync.Mutex
	kept   []*wire.Up // +checklocks:mu
	sent   int        // of kept // +checklocks:mu
	number uint64     // of the last message put in // +checklocks:mu
	beat   *wire.Beat // +checklocks:mu
	armed  bool       // a timer will wake the sender // +checklocks:mu
}

func newOutbox(window int64) *outbox {
	return &outbox{
		wake: make(chan struct{}, 1), acked: make(chan struct{}, 1),
		window: semaphore.NewWeighted(window), room: window,
	}
}

// put adds messages, which stay together. Those in no hurry travel with what follows within a moment.
func (o *outbox) put(hurry bool, ups ...*wire.Up) {
	o.mu.Lock()
	for _, u := range ups {
		o.number++
		u.Number = o.number
	}
	o.kept = append(o.kept, ups...)
	arm := !hurry && !o.armed
	o.armed = o.armed || arm
	o.mu.Unlock()
	if hurry {
		signal(o.wake)
	} else if arm {
		time.AfterFunc(linger, func() {
			o.mu.Lock()
			o.armed = false
			o.mu.Unlock()
			signal(o.wake)
		})
	}
}

// putLog adds a piece of a log when the window has room, or returns ctx's error.
func (o *outbox) putLog(ctx context.Context, l *wire.Log) error {
	if err := o.window.Acquire(ctx, o.weight(l)); err != nil {
		return err
	}
	o.put(false, &wire.Up{Body: &wire.Up_Log{Log: l}})
	return nil
}

func (o *outbox) weight(l *wire.Log) int64 { return min(int64(len(l.GetData()))+64, o.room) }

func (o *outbox) putBeat(stamp time.Duration) {
	o.mu.Lock()
	o.beat = &wire.Beat{StampNs: int64(stamp)}
	o.mu.Unlock()
	signal(o.wake)
}

// take returns what is to be sent next, nil if nothing is.
func (o *outbox) take() []*wire.Up {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ups []*wire.Up
	if o.beat != nil {
		ups = append(ups, &wire.Up{Body: &wire.Up_Beat{Beat: o.beat}})
		o.beat = nil
	}
	for size := 0; o.sent < len(o.kept) && size < batchBytes; o.sent++ {
		ups = append(ups, o.kept[o.sent])
		size += proto.Size(o.kept[o.sent])
	}
	return ups
}

// ack forgets all messages up to number.
func (o *outbox) ack(number uint64) {
	o.mu.Lock()
	n := 0
	var logs int64
	for n < o.sent && o.kept[n].GetNumber() <= number {
		if l := o.kept[n].GetLog(); l != nil {
			logs += o.weight(l)
		}
		o.kept[n] = nil
		n++
	}
	o.kept, o.sent = o.kept[n:], o.sent-n
	o.mu.Unlock()
	if logs > 0 {
		o.window.Release(logs)
	}
	signal(o.acked)
}

// flushed waits until everything is acknowledged, or returns ctx's error.
func (o *outbox) flushed(ctx context.Context) error {
	for {
		o.mu.Lock()
		empty := len(o.kept) == 0
		o.mu.Unlock()
		if empty {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.acked:
		}
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
