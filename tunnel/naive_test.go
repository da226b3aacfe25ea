package tunnel_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// naive is the registry that was stuck in production, as small as it can be: its owner, too, sends where somebody may have
// stopped listening. A tunnel is for one use; when that is over, or the tunnel's context is, one value is sent to it.
type naive struct {
	join, leave chan *naiveTunnel
	find        chan chan *naiveTunnel
	stop        chan struct{}
}

type naiveTunnel struct{ over chan struct{} } // unbuffered

func (n *naive) run() {
	idle := make(map[*naiveTunnel]bool)
	for {
		select {
		case t := <-n.join:
			idle[t] = true
		case answer := <-n.find:
			for t := range idle {
				delete(idle, t)
				answer <- t
				break
			}
		case t := <-n.leave:
			if len(idle) > 0 { // the fault: is anything idle, rather than: is t
				delete(idle, t)
				t.over <- struct{}{} // and the other: it waits for t
			}
		case <-n.stop:
			return
		}
	}
}

func (n *naive) serve(ctx context.Context, t *naiveTunnel) {
	n.join <- t
	select {
	case <-t.over:
	case <-ctx.Done():
		select {
		case n.leave <- t:
			<-t.over
		case <-t.over:
		}
	}
}

// With two tunnels, of which one was found, and its use and its context ending at the same moment, the owner or the user is
// left sending to nobody in about every second run. TestTunnelThatEndsAsItsUseDoesHarmsNobody is the same schedule.
func TestNaiveRegistryIsStuckWhereOursIsNot(t *testing.T) {
	t.Parallel()
	stuck, leaked := 0, 0
	const rounds = 64 // the chance that none is stuck is that of 64 coins all falling on one side
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			n := &naive{
				join: make(chan *naiveTunnel), leave: make(chan *naiveTunnel), find: make(chan chan *naiveTunnel),
				stop: make(chan struct{}),
			}
			var all sync.WaitGroup
			all.Go(n.run)
			cancels := make(map[*naiveTunnel]context.CancelFunc)
			var found *naiveTunnel
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				tun := &naiveTunnel{over: make(chan struct{})}
				cancels[tun] = cancel
				all.Go(func() { // its user, if any; the end of the connection is the end of both
					<-ctx.Done()
					if tun == found {
						tun.over <- struct{}{} // the one value
					}
				})
				synctest.Wait()
				all.Go(func() { n.serve(ctx, tun) })
				synctest.Wait()
			}
			answer := make(chan *naiveTunnel)
			n.find <- answer
			found = <-answer
			cancels[found]()
			synctest.Wait()

			select {
			case n.find <- answer: // the next request
				<-answer
			case <-time.After(time.Hour):
				stuck++
				<-found.over // let it go, so that the test can end
				n.find <- answer
				<-answer
			}
			synctest.Wait()
			select {
			case <-found.over: // its user had been left behind
				leaked++
			default:
			}
			for tun, cancel := range cancels {
				cancel()
				if tun != found {
					tun.over <- struct{}{}
				}
			}
			close(n.stop)
			all.Wait()
		})
	}
	if stuck == 0 {
		t.Errorf("never stuck in %d rounds: the schedule has lost its teeth", rounds)
	}
	t.Logf("of %d rounds the owner was stuck in %d, a user left behind in %d", rounds, stuck, leaked)
}
