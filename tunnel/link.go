package tunnel

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// link is the connection below HTTP/2, seen from either end. It knows why it ended, which HTTP/2 does not tell, and sees
// a GOAWAY pass, which HTTP/2 does not tell either.
type link struct {
	net.Conn
	began  time.Time
	heard  atomic.Int64  // when the last byte came, since began
	silent time.Duration // so long without a byte, and a close of its own accord means that a ping was lost
	limit  time.Duration // of a write that makes no way

	frames goAwayScanner // Read's
	goAway chan struct{} // closed when the peer has announced that it takes no more requests
	gone   chan struct{} // closed at the end

	mu    sync.Mutex
	cause error // why it ended
}

func newLink(conn net.Conn, limits Limits) *link {
	return &link{
		Conn: conn, began: time.Now(), silent: limits.PingTimeout, limit: limits.WriteTimeout,
		goAway: make(chan struct{}), gone: make(chan struct{}),
	}
}

// end closes the connection for the given reason, if it has not ended already.
func (l *link) end(cause error) {
	if l.noteEnd(cause) {
		_ = l.shut()
	}
}

func (l *link) noteEnd(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	close(l.gone)
	return true
}

// ended is why the connection ended, or nil.
func (l *link) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// shut closes without waiting for a peer that reads nothing: TLS would try for 5 s to tell it.
func (l *link) shut() error {
	if c, ok := l.Conn.(interface{ NetConn() net.Conn }); ok {
		t := time.AfterFunc(250*time.Millisecond, func() { _ = c.NetConn().Close() })
		defer t.Stop()
	}
	return l.Conn.Close()
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.began)))
		if l.frames.scan(p[:n]) {
			close(l.goAway)
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.end(readCause(err))
	}
	return n, err
}

func readCause(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the other end closed the connection")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection broke off")
	default:
		return fmt.Errorf("read from the connection: %w", err)
	}
}

func (l *link) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	switch {
	case err == nil:
	case !errors.Is(err, os.ErrDeadlineExceeded):
		l.end(fmt.Errorf("write to the connection: %w", err))
	case n == 0:
		l.end(fmt.Errorf("%w: it took no byte for %v", ErrBlocked, l.limit))
	}
	return n, err
}

// Close is HTTP/2's. It closes of itself, rather than after an error of Read or Write, above all if a ping got no answer.
func (l *link) Close() error {
	cause := errors.New("HTTP/2 has closed the connection")
	quiet := time.Since(l.began) - time.Duration(l.heard.Load())
	if quiet > l.silent-100*time.Millisecond {
		cause = fmt.Errorf("%w (nothing was heard for %v)", ErrSilent, quiet.Round(100*time.Millisecond))
	}
	l.end(cause)
	return nil
}

var _ interface{ NetConn() net.Conn } = (*tls.Conn)(nil) // what shut relies on

// goAwayScanner finds the first GOAWAY in a stream of HTTP/2 frames by their nine-byte headers.
type goAwayScanner struct {
	header [9]byte
	have   int  // bytes of header
	skip   int  // bytes of the payload still to pass
	seen   bool // it has found what it looks for, and rests
}

const frameGoAway = 0x7

// scan reports whether a GOAWAY begins in p; it does so once.
func (s *goAwayScanner) scan(p []byte) bool {
	for len(p) > 0 && !s.seen {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip -= n
			p = p[n:]
			continue
		}
		n := copy(s.header[s.have:], p)
		s.have += n
		p = p[n:]
		if s.have < len(s.header) {
			return false
		}
		s.have = 0
		s.skip = int(s.header[0])<<16 | int(s.header[1])<<8 | int(s.header[2])
		if s.header[3] == frameGoAway {
			s.seen = true
			return true
		}
	}
	return false
}
