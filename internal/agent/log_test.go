package agent

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath/internal/wire"
)

// sent takes what the outbox has, acknowledges it, and returns the logs of it.
func sent(o *outbox) (logs []*wire.Log) {
	for {
		ups := o.take()
		if len(ups) == 0 {
			return logs
		}
		for _, u := range ups {
			if u.GetLog() != nil {
				logs = append(logs, u.GetLog())
			}
		}
		o.ack(ups[len(ups)-1].GetNumber())
	}
}

// rebuild returns a log with zeros in its gaps.
func rebuild(t *testing.T, logs []*wire.Log) (text []byte, gaps int64) {
	t.Helper()
	for _, l := range logs {
		text = append(text, make([]byte, l.GetGap())...)
		gaps += l.GetGap()
		if int64(len(text)) != l.GetOffset() {
			t.Fatalf("a chunk at %d with a gap of %d follows %d bytes", l.GetOffset(), l.GetGap(), len(text))
		}
		text = append(text, l.GetData()...)
	}
	return text, gaps
}

func TestALogIsCutInItsMiddleWhateverTheWrites(t *testing.T) {
	t.Parallel()
	const head, tail = 1000, 300
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := newOutbox(1 << 20)
		l := newAttemptLog(o, "a", logLimits{head: head, tail: tail})
		var want []byte
		var got []*wire.Log
		for range r.IntN(40) {
			p := make([]byte, r.IntN(150)+r.IntN(2)*r.IntN(700))
			for i := range p {
				p[i] = byte(1 + r.IntN(255))
			}
			want = append(want, p...)
			l.write(t.Context(), -1, p)
			if r.IntN(9) == 0 {
				l.finish(t.Context(), -1) // a report; more may follow
				got = append(got, sent(o)...)
			}
		}
		l.close(t.Context())
		text, gaps := rebuild(t, append(got, sent(o)...))
		if len(text) != len(want) {
			t.Fatalf("seed %d: the log has %d bytes, want %d", seed, len(text), len(want))
		}
		for i, b := range text {
			if b != 0 && b != want[i] {
				t.Fatalf("seed %d: byte %d is %d, want %d", seed, i, b, want[i])
			}
		}
		kept := min(len(want), head)
		if !bytes.Equal(text[:kept], want[:kept]) {
			t.Fatalf("seed %d: the first %d bytes are not whole", seed, kept)
		}
		last := max(0, len(want)-tail)
		if !bytes.Equal(text[last:], want[last:]) {
			t.Fatalf("seed %d: the last %d bytes are not whole", seed, len(want)-last)
		}
		if len(want) <= head+tail && gaps > 0 {
			t.Fatalf("seed %d: %d of %d bytes were left out", seed, gaps, len(want))
		}
	}
}

func TestAServerThatAcknowledgesNothingDoesNotStopATest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const window, total = 1 << 20, 20 << 20
		o := newOutbox(window)
		l := newAttemptLog(o, "a", logLimits{head: 10 << 20, tail: 1 << 10})
		begun := time.Now()
		for range total / 1024 {
			l.write(t.Context(), 0, bytes.Repeat([]byte{'x'}, 1024))
		}
		if took := time.Since(begun); took > windowLimit {
			t.Errorf("the test waited for %v", took)
		}
		size := 0
		for _, u := range o.kept {
			size += len(u.GetLog().GetData())
		}
		if size > window {
			t.Errorf("%d bytes wait, in a window of %d", size, window)
		}
		logs := sent(o)
		l.close(t.Context())
		text, gaps := rebuild(t, append(logs, sent(o)...))
		if len(text) != total || gaps != int64(total-size-1<<10) {
			t.Errorf("the log has %d bytes with gaps of %d, want %d with %d", len(text), gaps, total, total-size-1<<10)
		}
	})
}

func TestALogIsSentWhileItsTestStillRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(1 << 20)
		l := newAttemptLog(o, "a", logLimits{head: 1 << 20, tail: 1 << 10})
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			l.flushLoop(context.WithoutCancel(t.Context()), done)
		}()
		l.write(t.Context(), 0, []byte("hello\n"))
		if logs := sent(o); len(logs) != 0 {
			t.Errorf("sent at once: %v", logs)
		}
		<-o.wake
		if logs := sent(o); len(logs) != 1 || string(logs[0].GetData()) != "hello\n" {
			t.Errorf("after a second: %v", logs)
		}
		close(done)
		<-ended
	})
}

func TestMessagesInNoHurryTravelTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(1 << 20)
		o.put(false, &wire.Up{}, &wire.Up{})
		begun := time.Now()
		<-o.wake
		if took := time.Since(begun); took != linger {
			t.Errorf("the sender woke after %v, want %v", took, linger)
		}
		o.put(true, &wire.Up{})
		<-o.wake
		if took := time.Since(begun); took != linger {
			t.Errorf("what is in a hurry waited until %v", took)
		}
		if ups := o.take(); len(ups) != 3 || ups[2].GetNumber() != 3 {
			t.Errorf("took %v", ups)
		}
		o.ack(2)
		flush, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := o.flushed(flush); err == nil {
			t.Error("flushed with a message that was not acknowledged")
		}
		o.ack(3)
		if err := o.flushed(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
