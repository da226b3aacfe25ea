package tunnel

import (
	"net/http"
	"time"
)

// Limits bound what one connection may cost and how long it may be silent. The zero value is the default; both ends may
// differ, but for MaxStreams × StreamWindow, which is what an end must be ready to hold in memory.
type Limits struct {
	// PingAfter is how long a connection may be silent before it is asked for a sign of life. Default 5 s.
	PingAfter time.Duration
	// PingTimeout is how long the answer may take. Default 5 s.
	PingTimeout time.Duration
	// WriteTimeout is how long the connection may refuse to take a single byte before it is closed. Default 10 s.
	WriteTimeout time.Duration
	// StallTimeout is how long one stream may wait for its other end to take 16 KiB before it is reset; the connection
	// and its other streams live on. Default 1 minute; negative is never.
	StallTimeout time.Duration
	// HandshakeTimeout bounds what comes before the first request: dialling, TLS, the upgrade, the first exchange.
	// Default 10 s.
	HandshakeTimeout time.Duration
	// StreamWindow is how many bytes one stream may have on the way, or unread. Default 256 KiB.
	StreamWindow int
	// MaxStreams is how many streams an agent serves at once on one connection; further requests wait. Default 250.
	MaxStreams int
}

func (l Limits) withDefaults() Limits {
	orDuration := func(d *time.Duration, or time.Duration) {
		if *d == 0 {
			*d = or
		}
	}
	orDuration(&l.PingAfter, 5*time.Second)
	orDuration(&l.PingTimeout, 5*time.Second)
	orDuration(&l.WriteTimeout, 10*time.Second)
	orDuration(&l.StallTimeout, time.Minute)
	orDuration(&l.HandshakeTimeout, 10*time.Second)
	if l.StreamWindow <= 0 {
		l.StreamWindow = 256 << 10
	}
	if l.MaxStreams <= 0 {
		l.MaxStreams = 250
	}
	return l
}

// connWindow is the connection's receive window in either direction. Streams are what is counted and bounded; a
// connection's window below their sum would only let a few that nobody reads stop all others.
const connWindow = 1 << 30

// pieceSize is how much of a body is handed on at a time: as much as must move within StallTimeout.
const pieceSize = 16 << 10

func (l Limits) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          l.MaxStreams,
		MaxReceiveBufferPerStream:     l.StreamWindow,
		MaxReceiveBufferPerConnection: connWindow,
		MaxReadFrameSize:              pieceSize, // the other end keeps a buffer of as much for each upload
		SendPingTimeout:               l.PingAfter,
		PingTimeout:                   l.PingTimeout,
		WriteByteTimeout:              l.WriteTimeout,
	}
}

func unencryptedHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}
