package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

func TestQueueGivesWaitingUnitsInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &build{}
		for i := range 1 + r.IntN(40) {
			a := &atom{index: i}
			a.whole.mean = time.Duration(r.IntN(5)) * time.Second
			a.whole.dev = time.Duration(r.IntN(3)) * time.Second
			b.atoms = append(b.atoms, a)
		}
		var waiting []towpath.Unit
		for range 300 {
			w := towpath.Unit{Atom: r.IntN(len(b.atoms))}
			u := b.unit(w)
			switch i := slices.Index(waiting, w); {
			case i < 0:
				b.put(w)
				waiting = append(waiting, w)
			case r.IntN(2) == 0:
				b.leave(u) // from the middle
				waiting = slices.Delete(waiting, i, i+1)
			default: // the first one is taken
				slices.SortFunc(waiting, b.order)
				b.leave(b.unit(waiting[0]))
				b.compact(&b.queue, inQueue)
				waiting = waiting[1:]
			}
			slices.SortFunc(waiting, b.order)
			if got := b.waiting(&b.queue, inQueue); !slices.Equal(got, waiting) {
				t.Fatalf("seed %d: the queue gives %v, want %v", seed, got, waiting)
			}
			var sum time.Duration
			fresh := 0
			for _, w := range waiting {
				if m := b.unit(w).mean; m > 0 {
					sum += m
				} else {
					fresh++
				}
			}
			if b.queue.n != len(waiting) || b.waitSum != sum || b.waitNew != fresh {
				t.Fatalf("seed %d: the queue counts %d, %v and %d new, want %d, %v and %d", seed, b.queue.n, b.waitSum, b.waitNew, len(waiting), sum, fresh)
			}
		}
	}
}

// TestALostBatchOfThousandsWaitsAgainInOrder guards against moving the whole queue for each unit.
func TestALostBatchOfThousandsWaitsAgainInOrder(t *testing.T) {
	t.Parallel()
	b := &build{}
	const atoms, batch = 50_000, 5_000
	for i := range atoms {
		b.atoms = append(b.atoms, &atom{index: i, whole: unit{mean: time.Duration(atoms-i) * time.Millisecond}})
		b.put(towpath.Unit{Atom: i})
	}
	for i := range batch {
		b.leave(b.unit(towpath.Unit{Atom: i}))
	}
	b.compact(&b.queue, inQueue)
	length := len(b.queue.items)
	for i := range batch {
		b.put(towpath.Unit{Atom: i})
	}
	if got := b.waiting(&b.queue, inQueue); len(got) != atoms || !slices.IsSortedFunc(got, b.order) {
		t.Errorf("%d units wait, sorted: %t", len(got), slices.IsSortedFunc(got, b.order))
	}
	if len(b.queue.items) != length || b.queue.head != 0 {
		t.Errorf("the queue grew from %d to %d entries, %d of them before its head: the room at its front was not used", length, len(b.queue.items), b.queue.head)
	}
}
