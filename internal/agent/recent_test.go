package agent

import (
	"strconv"
	"testing"

	"github.com/towpath/towpath"
)

func TestRepeatedOffersAreKnownAndOldOnesForgotten(t *testing.T) {
	t.Parallel()
	var r recent
	id := func(i int) towpath.AttemptID { return towpath.AttemptID(strconv.Itoa(i)) }
	for i := range 3 * recentOffers {
		if !r.add(id(i)) {
			t.Fatalf("offer %d is taken for a repeated one", i)
		}
		if old := max(0, i-recentOffers+1); r.add(id(old)) {
			t.Fatalf("offer %d is forgotten after %d others", old, i-old)
		}
	}
	if len(r.known) != recentOffers || len(r.ring) != recentOffers {
		t.Errorf("%d and %d offers are remembered, want %d", len(r.known), len(r.ring), recentOffers)
	}
}
