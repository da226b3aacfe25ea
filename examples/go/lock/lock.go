// Package lock works out how long a boat takes through a flight of locks.
package lock

import (
	"errors"
	"time"
)

// Lock is one chamber with a gate at each end.
type Lock struct {
	Rise float64 // metres
	Open bool    // its lower gate stands open
}

// ErrRise says that a lock neither rises nor falls.
var ErrRise = errors.New("lock has no rise")

// Time is how long one boat takes: filling at half a metre a minute, and two minutes for each gate that has to be opened.
func (l Lock) Time() (time.Duration, error) {
	if l.Rise == 0 {
		return 0, ErrRise
	}
	rise := l.Rise
	if rise < 0 {
		rise = -rise
	}
	gates := 2
	if l.Open {
		gates = 1
	}
	return time.Duration(rise*2*float64(time.Minute)) + time.Duration(gates)*2*time.Minute, nil
}

// Flight is the time through all locks, one after the other.
func Flight(locks ...Lock) (time.Duration, error) {
	var sum time.Duration
	for _, l := range locks {
		t, err := l.Time()
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}
