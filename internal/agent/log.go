package agent

import (
	"context"
	"sync"
	"time"

	"github.com/towpath/towpath/internal/wire"
)

const (
	chunkBytes = 256 << 10
	chunkAge   = time.Second
	// windowLimit is how long a log waits for room in the outbox. After that only its end is kept: a server that stores
	// nothing must not stop a test.
	windowLimit = 10 * time.Second
)

type logLimits struct {
	head int64 // bytes sent as they come
	tail int   // bytes kept of the rest
}

// attemptLog is the logs of one attempt: a stream for each unit, and -1 for the attempt itself.
type attemptLog struct {
	out     *outbox
	attempt string
	limits  logLimits

	mu      sync.Mutex
	streams map[int]*logStream // +checklocks:mu
}

// logStream is one log. turn is held by whoever writes to it or sends from it, also while the outbox has no room: that is
// what keeps the pieces in order.
type logStream struct {
	turn   chan struct{}
	unit   int
	offset int64  // of the first byte of buf
	buf    []byte // not yet sent
	tail   []byte // once the head is full: a ring of the last bytes
	at     int    // in tail: where the next byte goes, once it is full
	cut    int64  // bytes after the head, tail included
	tailed bool   // nothing more is sent as it comes
}

func newAttemptLog(out *outbox, attempt string, limits logLimits) *attemptLog {
	return &attemptLog{out: out, attempt: attempt, limits: limits, streams: make(map[int]*logStream)}
}

func (l *attemptLog) stream(unit int) *logStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[unit]
	if s == nil {
		s = &logStream{turn: make(chan struct{}, 1), unit: unit}
		l.streams[unit] = s
	}
	return s
}

func (l *attemptLog) find(unit int) *logStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[unit]
}

// write appends p to the log of unit. It may wait for room in the outbox, for a bounded time.
func (l *attemptLog) write(ctx context.Context, unit int, p []byte) {
	s := l.stream(unit)
	s.turn <- struct{}{} // its holder waits at most windowLimit
	defer func() { <-s.turn }()
	if !s.tailed {
		if room := l.limits.head - s.offset - int64(len(s.buf)); int64(len(p)) > room {
			s.buf = append(s.buf, p[:room]...)
			l.send(ctx, s)
			s.tailed = true
			p = p[room:]
		} else {
			s.buf = append(s.buf, p...)
			if len(s.buf) >= chunkBytes {
				l.send(ctx, s)
			}
			return
		}
	}
	s.keepTail(p, l.limits.tail)
}

// send sends what is buffered. The caller has the turn.
func (l *attemptLog) send(ctx context.Context, s *logStream) {
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), windowLimit)
	defer stop()
	for len(s.buf) > 0 && !s.tailed {
		n := min(len(s.buf), chunkBytes)
		chunk := &wire.Log{Attempt: l.attempt, Unit: int64(s.unit), Offset: s.offset, Data: s.buf[:n:n]}
		if err := l.out.putLog(limit, chunk); err != nil {
			rest := s.buf
			s.buf, s.tailed = nil, true
			s.keepTail(rest, l.limits.tail)
			return
		}
		s.offset += int64(n)
		s.buf = s.buf[n:]
	}
	s.buf = nil // the outbox has the memory now
}

func (s *logStream) keepTail(p []byte, limit int) {
	s.cut += int64(len(p))
	if len(p) >= limit {
		s.tail, s.at = append(s.tail[:0], p[len(p)-limit:]...), 0
		return
	}
	if free := limit - len(s.tail); free > 0 {
		n := min(free, len(p))
		s.tail, p = append(s.tail, p[:n]...), p[n:]
	}
	for len(p) > 0 {
		n := copy(s.tail[s.at:], p)
		s.at, p = (s.at+n)%limit, p[n:]
	}
}

// finish sends all there is of the log of unit: its buffer, and the tail with the gap before it. What is written later
// follows after that.
func (l *attemptLog) finish(ctx context.Context, unit int) {
	s := l.find(unit)
	if s == nil {
		return
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	l.send(ctx, s)
	if s.cut == 0 {
		return
	}
	data := append(s.tail[s.at:len(s.tail):len(s.tail)], s.tail[:s.at]...)
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), windowLimit)
	defer stop()
	for s.tail, s.at = data, 0; len(s.tail) > 0; {
		n := min(len(s.tail), chunkBytes)
		gap := s.cut - int64(len(s.tail))
		chunk := &wire.Log{Attempt: l.attempt, Unit: int64(unit), Offset: s.offset + gap, Gap: gap, Data: s.tail[:n:n]}
		if err := l.out.putLog(limit, chunk); err != nil {
			return // for so long there was no room: it stays for the next attempt to finish
		}
		s.offset += gap + int64(n)
		s.cut -= gap + int64(n)
		s.tail = s.tail[n:]
	}
	s.tail = nil
}

// close finishes all logs.
func (l *attemptLog) close(ctx context.Context) {
	for _, unit := range l.units() {
		l.finish(ctx, unit)
	}
}

func (l *attemptLog) units() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	units := make([]int, 0, len(l.streams))
	for unit := range l.streams {
		units = append(units, unit)
	}
	return units
}

// flushLoop sends what has waited for its chunk to fill, so that logs can be followed live. It ends with done.
func (l *attemptLog) flushLoop(ctx context.Context, done <-chan struct{}) {
	t := time.NewTicker(chunkAge)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
		}
		for _, unit := range l.units() {
			s := l.find(unit)
			if s == nil {
				continue
			}
			select {
			case s.turn <- struct{}{}:
				l.send(ctx, s)
				<-s.turn
			default: // it is being written to just now
			}
		}
	}
}

// logWriter writes a command's output into the log of a unit, and keeps its last lines.
type logWriter struct {
	ctx  context.Context //nolint:containedctx // of the one command that it is made for; io.Writer has no way to pass it
	log  *attemptLog
	unit int
	last *lastLines
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.log.write(w.ctx, w.unit, p)
	if w.last != nil {
		_, _ = w.last.Write(p)
	}
	return len(p), nil
}
