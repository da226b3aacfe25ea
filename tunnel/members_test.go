package tunnel

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// T7: those who wait for one agent are answered in the order in which they came, those who have left are passed over.
func TestThoseWhoWaitAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	m := &members{maxWaiting: 100, maxTunnels: 2, agents: make(map[string]*agent)}
	var order []int
	var seeks []seek
	for range 10 {
		s := seek{"a", make(chan found, 1)}
		seeks = append(seeks, s)
		m.seek(s)
	}
	m.abort(seeks[3])
	m.abort(seeks[3])
	m.seek(seek{"b", make(chan found, 1)})
	for _, s := range m.agents["a"].waiting {
		order = append(order, slices.IndexFunc(seeks, func(o seek) bool { return o.answer == s.answer }))
	}
	if want := []int{0, 1, 2, 4, 5, 6, 7, 8, 9}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	stub := NewStub("a")
	if err := m.join(stub); err != nil {
		t.Fatal(err)
	}
	for i, s := range seeks {
		select {
		case f := <-s.answer:
			if i == 3 || f.t != stub {
				t.Errorf("%d: %v", i, f)
			}
		default:
			if i != 3 {
				t.Errorf("%d has no answer", i)
			}
		}
	}
}

func TestBestTunnelIsTheLeastUsedOfThoseThatStay(t *testing.T) {
	t.Parallel()
	gone, leaving, moving, busy, idle := NewStub("a"), NewStub("a"), NewStub("a"), NewStub("a"), NewStub("a")
	gone.Close(errors.New("over"))
	close(leaving.link.goAway)
	moving.moving.Store(true)
	busy.inFlight.Store(2)
	idle.inFlight.Store(1)
	a := &agent{}
	for _, step := range []struct {
		add, want *Tunnel
	}{{gone, nil}, {leaving, nil}, {moving, moving}, {busy, busy}, {idle, idle}} {
		a.tunnels = append(a.tunnels, step.add)
		if got := a.best(); got != step.want {
			t.Errorf("of %d: got %p, want %p", len(a.tunnels), got, step.want)
		}
	}
}

func TestTooManyWaitingIsAnAnswer(t *testing.T) {
	t.Parallel()
	m := &members{maxWaiting: 1, maxTunnels: 1, agents: make(map[string]*agent)}
	m.seek(seek{"a", make(chan found, 1)})
	second := seek{"a", make(chan found, 1)}
	m.seek(second)
	if f := <-second.answer; !errors.Is(f.err, ErrBusy) {
		t.Errorf("got %v", f.err)
	}
}

func TestGoAwayIsSeenHoweverItIsCutUp(t *testing.T) {
	t.Parallel()
	frame := func(kind byte, payload int) []byte {
		return append([]byte{0, byte(payload >> 8), byte(payload), kind, 0, 0, 0, 0, 0}, make([]byte, payload)...)
	}
	plain := slices.Concat(frame(4, 18), frame(0, 300), frame(8, 4), frame(0, 0), frame(6, 8))
	for size := 1; size < 40; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			var s goAwayScanner
			for piece := range slices.Chunk(plain, size) {
				if s.scan(piece) {
					t.Fatal("seen where there is none")
				}
			}
			seen := 0
			for piece := range slices.Chunk(slices.Concat(frame(7, 8), frame(7, 8)), size) {
				if s.scan(piece) {
					seen++
				}
			}
			if seen != 1 {
				t.Errorf("seen %d times", seen)
			}
		})
	}
}
