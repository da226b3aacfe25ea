// Package reg is a registry that gets locking wrong in many ways, and right in some.
package reg

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

type registry struct {
	mu    sync.Mutex
	peers map[string]chan int
	db    *sql.DB
	rw    sync.RWMutex
}

func (r *registry) sends(id string) { // want sends:"waits: channel send"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers[id] <- 1 // want `channel send while r.mu is held`
}

func (r *registry) receives(id string) int { // want receives:"waits: channel receive"
	return <-r.peers[id]
}

func (r *registry) tries(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.peers[id] <- 1:
	default:
	}
}

func (r *registry) selects(id string, stop chan struct{}) { // want selects:"waits: select"
	r.rw.RLock()
	select { // want `select without default while r.rw is held`
	case r.peers[id] <- 1:
	case <-stop:
	}
	r.rw.RUnlock()
}

func (r *registry) queries(ctx context.Context) error { // want queries:"waits: call"
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.db.ExecContext(ctx, "select 1") // want `which takes a context, while r.mu is held`
	return err
}

func (r *registry) callsAWaiter(id string) { // want callsAWaiter:"waits: call of receives"
	r.mu.Lock()
	r.receives(id) // want `call of receives, which can wait \(channel receive\), while r.mu is held`
	r.mu.Unlock()
}

func (r *registry) unlocksFirst(ctx context.Context, id string) error { // want unlocksFirst:"waits: select"
	r.mu.Lock()
	c := r.peers[id]
	r.mu.Unlock()
	select {
	case c <- 1:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *registry) branches(early bool) { // want branches:"waits: call of time.Sleep"
	r.rw.RLock()
	if early {
		r.rw.RUnlock()
		time.Sleep(time.Second)
		return
	}
	time.Sleep(time.Second) // want `call of time.Sleep while r.rw is held`
	r.rw.RUnlock()
}
