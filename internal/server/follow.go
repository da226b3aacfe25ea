package server

import (
	"context"
	"iter"
	"time"

	"github.com/towpath/towpath"
)

// pollEvery is how often a build that another process owns is looked at while somebody follows it.
const pollEvery = 200 * time.Millisecond

// ownerEvery is how often it is asked meanwhile whether that process still lives: one that was killed ends no build.
const ownerEvery = time.Second

// Events yields a build's events after the one numbered from, and if it goes on those to come, until its last.
func (b builds) Events(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error] {
	next := from + 1
	if b.live != nil {
		return b.live.Watch(ctx, n, next)
	}
	return func(yield func(towpath.NumberedEvent, error) bool) {
		follow(ctx, b, n, yield, func() bool {
			for e, err := range b.db.Events(ctx, n, next) {
				if !yield(e, err) || err != nil {
					return false
				}
				next = e.Seq + 1
			}
			return true
		})
	}
}

// Log yields the chosen logs, stream by stream; or as they arrive, if they are to be followed.
func (b builds) Log(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery, following bool) iter.Seq2[towpath.LogPiece, error] {
	if !following {
		return b.db.Log(ctx, n, q)
	}
	if b.live != nil {
		return b.live.Log(ctx, n, q)
	}
	tail := b.db.Tail(n, q)
	return func(yield func(towpath.LogPiece, error) bool) {
		follow(ctx, b, n, yield, func() bool {
			for {
				pieces, err := tail.Next(ctx)
				if err != nil {
					yield(towpath.LogPiece{}, err)
					return false
				}
				if len(pieces) == 0 {
					return true
				}
				for _, p := range pieces {
					if !yield(p, nil) {
						return false
					}
				}
			}
		})
	}
}

// follow calls more again and again until the build has ended and more was called once after that, more says false, or
// ctx ends. A build whose owner was killed is ended as errored.
func follow[T any](ctx context.Context, b builds, n towpath.BuildNumber, yield func(T, error) bool, more func() bool) {
	var zero T
	pause := time.NewTimer(0)
	defer pause.Stop()
	looked := time.Now() // for the build's owner, who is asked for less often than the build
	for {
		select {
		case <-ctx.Done():
			yield(zero, context.Cause(ctx))
			return
		case <-pause.C:
		}
		build, err := b.db.Build(ctx, n) // before more, so that what is stored before the end is seen
		if err != nil {
			yield(zero, err)
			return
		}
		if !more() || build.State.Final() {
			return
		}
		if now := time.Now(); now.Sub(looked) >= ownerEvery {
			looked = now
			if !alive(b.stateDir, build.Owner) {
				if err := settleOrphans(ctx, b.db, b.stateDir); err != nil {
					yield(zero, err)
					return
				}
			}
		}
		pause.Reset(pollEvery)
	}
}
