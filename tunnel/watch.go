package tunnel

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// watch calls a function if what was started is not stopped within the limit. One goroutine starts and stops it.
type watch struct {
	limit time.Duration // none if not positive
	timer *time.Timer
	fired atomic.Bool
}

func newWatch(limit time.Duration, overdue func()) *watch {
	w := &watch{limit: limit}
	if limit > 0 {
		w.timer = time.AfterFunc(limit, func() {
			w.fired.Store(true)
			overdue()
		})
		w.timer.Stop()
	}
	return w
}

func (w *watch) start() {
	if w.timer != nil {
		w.timer.Reset(w.limit)
	}
}

// stop reports whether the limit has passed.
func (w *watch) stop() bool {
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.fired.Load()
}

// watchedBody is the body of a request, read by HTTP/2 as the other end takes it. The time from one Read to the next is
// thus the time that a piece has waited for the other end; the time within Read is the body's own affair.
type watchedBody struct {
	io.ReadCloser
	watch *watch
}

func watchBody(body io.ReadCloser, limit time.Duration, cancel context.CancelCauseFunc) io.ReadCloser {
	return &watchedBody{ReadCloser: body, watch: newWatch(limit, func() { cancel(ErrStalled) })}
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.stop()
	n, err := b.ReadCloser.Read(p[:min(len(p), pieceSize)])
	if err == nil {
		b.watch.start()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.watch.stop()
	return b.ReadCloser.Close()
}
