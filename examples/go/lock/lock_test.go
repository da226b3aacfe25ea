package lock

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	for _, c := range []struct {
		name string
		lock Lock
		want time.Duration
	}{
		{"up 2.5 m", Lock{Rise: 2.5}, 9 * time.Minute},
		{"down 2.5 m", Lock{Rise: -2.5}, 9 * time.Minute},
		{"gate open", Lock{Rise: 1, Open: true}, 4 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.lock.Time()
			if err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestFlightStopsAtALockWithoutRise(t *testing.T) {
	if _, err := Flight(Lock{Rise: 1}, Lock{}); !errors.Is(err, ErrRise) {
		t.Errorf("error %v", err)
	}
}

func ExampleFlight() {
	fmt.Println(Flight(Lock{Rise: 2}, Lock{Rise: 3, Open: true}))
	// Output: 16m0s <nil>
}
