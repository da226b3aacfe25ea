package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"
)

// Stream is one stream of bytes through a tunnel, as a [net.Conn]: what a CONNECT request opens. It may be read, written
// and closed by different goroutines.
//
// CloseWrite of the end that dialled is io.EOF at the other, which may go on writing. The other way round HTTP/2 has only
// a full close: the end that accepted closes when it has said all.
type Stream struct {
	in, out       net.Conn // each an in-memory pipe, for its deadlines
	local, remote net.Addr
	close         func() error // ends the stream below, and waits for what moves its bytes
	once          sync.Once
	closeErr      error

	mu     sync.Mutex
	broken error // why the stream ended, if for an error
}

// Dial opens a stream to address, whatever that means to the agent's handler, which sees a CONNECT request with it as
// Host. An answer other than 2xx is a [*ConnectError]. Ctx ends the dialling only.
func (t *Tunnel) Dial(ctx context.Context, address string) (*Stream, error) {
	inHere, inThere := net.Pipe()
	outHere, outThere := net.Pipe()
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	wrote := make(chan struct{}) // closed when all has been sent, the end included
	lasting = httptrace.WithClientTrace(lasting, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) },
	})
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	req := (&http.Request{
		Method: http.MethodConnect, URL: &url.URL{Scheme: "http", Host: address}, Host: address,
		Header: make(http.Header), Body: outThere, ContentLength: -1,
	}).WithContext(lasting)
	resp, err := t.send(req) //nolint:bodyclose // the stream's, which closes it
	stopped := stop()
	if err == nil && !stopped {
		err = errors.Join(context.Cause(ctx), resp.Body.Close())
	}
	if err == nil && resp.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // it only explains
		err = errors.Join(&ConnectError{Address: address, Status: resp.StatusCode, Message: string(body)}, resp.Body.Close())
	}
	if err != nil {
		cancel(err)
		_, _ = inHere.Close(), outHere.Close()
		return nil, fmt.Errorf("open a stream to %s: %w", address, err)
	}
	s := &Stream{in: inHere, out: outHere, local: t.link.LocalAddr(), remote: streamAddr(address)}
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		_, err := io.CopyBuffer(plainWriter{inThere}, resp.Body, make([]byte, 2*pieceSize))
		s.fail(err)
		_ = inThere.Close()
		if err != nil {
			_ = outThere.Close()
		}
		_ = resp.Body.Close()
	}()
	s.close = func() error {
		_ = outHere.Close()
		late := time.NewTimer(t.limits.WriteTimeout)
		defer late.Stop()
		var err error
		select {
		case <-wrote: // what was written arrives before the stream is reset
		case <-pumped:
		case <-late.C:
			err = fmt.Errorf("close the stream to %s: the agent has not taken all of it within %v", address, t.limits.WriteTimeout)
		}
		_ = inHere.Close()
		_ = resp.Body.Close() // resets the stream, if it has not ended
		<-pumped
		return err
	}
	return s, nil
}

// ConnectError is the agent's handler's refusal to open a stream.
type ConnectError struct {
	Address string
	Status  int
	Message string
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("the agent answered %d %s to CONNECT %s: %s", e.Status, http.StatusText(e.Status), e.Address, e.Message)
}

// Accept answers a CONNECT request, in an agent's handler, with a stream of bytes. The handler must not return before it
// has closed the stream, and should then: the other end sees io.EOF when it has.
func Accept(w http.ResponseWriter, r *http.Request) (*Stream, error) {
	if r.Method != http.MethodConnect || r.ProtoMajor != 2 {
		return nil, fmt.Errorf("accept a stream: a CONNECT over HTTP/2 is wanted, not %s over %s", r.Method, r.Proto)
	}
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	if err := flush.Flush(); err != nil {
		return nil, fmt.Errorf("accept a stream: %w", err)
	}
	inHere, inThere := net.Pipe()
	outHere, outThere := net.Pipe()
	s := &Stream{in: inHere, out: outHere, local: streamAddr(r.Host), remote: streamAddr(r.RemoteAddr)}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_, err := io.CopyBuffer(plainWriter{inThere}, r.Body, make([]byte, 2*pieceSize))
		s.fail(err)
		_ = inThere.Close()
	})
	pumps.Go(func() {
		_, err := io.CopyBuffer(&flushWriter{w: w, flush: flush}, plainReader{outThere}, make([]byte, 2*pieceSize))
		s.fail(err)
		_ = outThere.Close()
	})
	s.close = func() error {
		_ = outHere.Close() // what was written has been taken, and is on its way before the handler returns
		_ = inHere.Close()
		_ = r.Body.Close()
		pumps.Wait()
		return nil
	}
	return s, nil
}

// flushWriter sends each piece as it comes.
type flushWriter struct {
	w     io.Writer
	flush *http.ResponseController
}

func (f *flushWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.flush.Flush()
	}
	return n, err
}

// plainWriter and plainReader hide what io.Copy would rather use.
type (
	plainWriter struct{ io.Writer }
	plainReader struct{ io.Reader }
)

type streamAddr string

func (streamAddr) Network() string  { return "tunnel" }
func (a streamAddr) String() string { return string(a) }

func (s *Stream) fail(err error) {
	if err == nil || errors.Is(err, io.ErrClosedPipe) { // our own Close
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = err
	}
}

// explain says why a pipe ended: not of itself, if the stream below broke.
func (s *Stream) explain(err error) error {
	if err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	return err
}

func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	return n, s.explain(err)
}

func (s *Stream) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	return n, s.explain(err)
}

// CloseWrite says that no more will be written.
func (s *Stream) CloseWrite() error { return s.out.Close() }

// Close ends the stream. It waits until what was written is on its way, for at most [Limits.WriteTimeout], and says so if
// it was not.
func (s *Stream) Close() error {
	s.once.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

// LocalAddr is this end's.
func (s *Stream) LocalAddr() net.Addr { return s.local }

// RemoteAddr is the other end's: where one dialled, the address that was asked for.
func (s *Stream) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.in.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.out.SetWriteDeadline(t) }
