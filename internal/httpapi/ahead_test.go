package httpapi

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestAStreamIsFlushedWhenThereIsNothingMoreToSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake, broken := make(chan struct{}), errors.New("broken")
		items := func(yield func(int, error) bool) {
			for i := range 3 {
				if !yield(i, nil) {
					return
				}
			}
			<-wake
			yield(0, broken)
		}
		var got []int
		flushed := -1
		idle := func() { flushed = len(got) }
		go func() {
			synctest.Wait() // the stream waits for its fourth item
			if flushed != 3 {
				t.Errorf("%d items were flushed before the wait, want 3", flushed)
			}
			close(wake)
		}()
		for item, err := range ahead(t.Context(), items, idle) {
			if err != nil {
				if !errors.Is(err, broken) {
					t.Error(err)
				}
				break
			}
			got = append(got, item)
		}
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestAStreamThatIsLeftEndsWhatFeedsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		items := func(yield func(int, error) bool) {
			defer func() { ended = true }()
			for i := 0; yield(i, nil); i++ {
			}
		}
		for item, err := range ahead(t.Context(), items, func() {}) {
			if err != nil {
				t.Error(err)
			}
			if item == 1000 {
				break
			}
		}
		if !ended {
			t.Error("what feeds the stream goes on")
		}
	})
}
