package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/towpath/towpath/internal/store"
)

// trouble is why the loop stands by, for all who ask.
type trouble struct{ why atomic.Pointer[string] }

func (t *trouble) set(err error) {
	line, _, _ := strings.Cut(err.Error(), "\n")
	t.why.Store(&line)
}

func (t *trouble) clear() { t.why.Store(nil) }

// Trouble is one line that says why nothing is decided at the moment, such as a disk that is full; "" if the loop decides.
// It may be called from any goroutine.
func (l *Loop) Trouble() string {
	if why := l.trouble.why.Load(); why != nil {
		return *why
	}
	return ""
}

// standby refuses what comes until the store takes writes again, and then reloads. It returns an error if that cannot
// help, and nil if ctx ends.
func (l *Loop) standby(ctx context.Context, why error) error {
	defer l.trouble.clear()
	if store.Permanent(why) {
		return fmt.Errorf("dispatch: %w", why)
	}
	l.log.Error("standing by", "err", why)
	why = unavailable(why)
	// At once, unless it is the same again: the store may only have been busy, and a failed decider is no fault of it.
	timer := time.NewTimer(l.retry)
	l.retry = min(max(2*l.retry, firstRetry), lastRetry)
	defer timer.Stop()
	for {
		l.trouble.set(why)
		select {
		case <-ctx.Done():
			return nil
		case q := <-l.requests:
			q.answer <- repeat(why, len(q.inputs))
			continue
		case q := <-l.logs:
			q.answer <- []error{why}
			continue
		case <-timer.C:
		}
		err := l.cfg.Store.Probe(ctx, l.cfg.Owner)
		permanent := store.Permanent(err)
		if err == nil {
			err = l.reload(ctx)
			permanent = err != nil && !store.Transient(err) // what is stored and cannot be read stays so
		}
		switch {
		case err == nil:
			l.log.Info("dispatching again")
			return nil
		case ctx.Err() != nil:
			return nil
		case permanent, errors.Is(err, errReplay):
			return fmt.Errorf("dispatch again: %w", err)
		}
		why = unavailable(err)
		timer.Reset(l.retry)
		l.retry = min(2*l.retry, lastRetry)
	}
}
