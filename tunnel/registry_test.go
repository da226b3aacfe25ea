package tunnel_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/towpath/towpath/tunnel"
)

func runRegistry(t *testing.T) (r *tunnel.Registry, stop func()) {
	t.Helper()
	r = tunnel.NewRegistry()
	r.MaxTunnels = 100
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Error("the registry does not stop")
		}
	})
	t.Cleanup(stop)
	return r, stop
}

// probe asks for something simple, which a registry that is stuck does not answer.
func probe(t *testing.T, r *tunnel.Registry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := r.Tunnels(ctx); err != nil {
		t.Fatalf("the registry is stuck: %v", err)
	}
}

var errUsedUp = errors.New("used up")

// T1: the schedule on which the naive registry is stuck (naive_test.go): one of two tunnels was found, and ends at the same
// moment as its use.
func TestTunnelThatEndsAsItsUseDoesHarmsNobody(t *testing.T) {
	t.Parallel()
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			r, _ := runRegistry(t)
			var serving sync.WaitGroup
			ctxs := make([]context.CancelFunc, 2)
			for i := range ctxs {
				ctx, cancel := context.WithCancel(t.Context())
				ctxs[i] = cancel
				defer cancel()
				serving.Go(func() { _ = r.Serve(ctx, tunnel.NewStub("a")) })
				synctest.Wait()
			}
			first, err := r.Find(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			release := make(chan struct{})
			serving.Go(func() { <-release; first.Close(errUsedUp) })
			serving.Go(func() { <-release; ctxs[0]() })
			synctest.Wait()
			close(release)
			synctest.Wait()
			probe(t, r)
			second, err := r.Find(t.Context(), "a")
			if err != nil || second == first {
				t.Fatalf("after the first was used up: %v", err)
			}
			ctxs[1]()
			serving.Wait()
		})
	}
}

// T2
func TestFindThatIsCancelledAsItIsServedLosesNothing(t *testing.T) {
	t.Parallel()
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			r, _ := runRegistry(t)
			ctx, cancel := context.WithCancel(t.Context())
			served, cut := context.WithCancel(t.Context())
			var all sync.WaitGroup
			stub := tunnel.NewStub("a")
			all.Go(func() {
				if got, err := r.Find(ctx, "a"); got != stub && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, %v", got, err)
				}
			})
			synctest.Wait()
			all.Go(cancel)
			all.Go(func() { _ = r.Serve(served, stub) })
			synctest.Wait()
			if got, err := r.Find(t.Context(), "a"); got != stub || err != nil || got.Err() != nil {
				t.Errorf("afterwards: %v, %v", got, err)
			}
			cut()
			all.Wait()
			if all, err := r.Tunnels(t.Context()); len(all) != 0 || err != nil {
				t.Errorf("%d tunnels left, %v", len(all), err)
			}
		})
	}
}

var stormSeeds = flag.Int("storms", 20, "how many seeds to run TestStorm with")

// T3 and T4: 800 come, 700 go, 100 wait, at once; with stop, the registry ends in the middle of it.
func TestStorm(t *testing.T) {
	t.Parallel()
	seeds := *stormSeeds
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped=%v", stopped), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) { storm(t, uint64(seed), stopped) })
			}
		})
	}
}

func storm(t *testing.T, seed uint64, stopped bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 3))
	r, stop := runRegistry(t)
	var all sync.WaitGroup
	release := make(chan struct{})
	var leavers []context.CancelFunc
	join := func(id string, when <-chan struct{}) {
		ctx, cancel := context.WithCancel(t.Context())
		leavers = append(leavers, cancel)
		all.Go(func() {
			<-when
			err := r.Serve(ctx, tunnel.NewStub(id))
			if !errors.Is(err, context.Canceled) && (!stopped || !errors.Is(err, tunnel.ErrClosed)) {
				t.Errorf("serve: %v", err)
			}
		})
	}
	now := make(chan struct{})
	close(now)
	for i := range 700 {
		join(fmt.Sprint("old", i%50), now)
	}
	synctest.Wait()
	for _, leaver := range leavers {
		all.Go(func() { <-release; leaver() })
	}
	for i := range 800 {
		join(fmt.Sprint("new", i%50), release)
	}
	var got, late int
	var mu sync.Mutex
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fate := random.IntN(3) // of a finder: its agent comes; it is cancelled meanwhile; its agent never comes
		all.Go(func() {
			id := fmt.Sprint("new", i%50)
			if fate == 2 {
				time.AfterFunc(time.Minute, cancel)
				id = "never"
			}
			if fate == 1 {
				all.Go(func() {
					<-release
					for range i {
						runtime.Gosched()
					}
					cancel()
				})
			}
			tun, err := r.Find(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && tun.ID() == id && fate != 2:
				got++
			case fate != 0 && errors.Is(err, context.Canceled):
				late++
			case stopped && errors.Is(err, tunnel.ErrClosed):
			default:
				t.Errorf("find %s: %v, %v", id, tun, err)
			}
		})
	}
	synctest.Wait()
	close(release)
	if stopped {
		for range random.IntN(200) {
			runtime.Gosched()
		}
		stop()
		if _, err := r.Find(t.Context(), "new1"); !errors.Is(err, tunnel.ErrClosed) {
			t.Errorf("find after stop: %v", err)
		}
		if err := r.Serve(t.Context(), tunnel.NewStub("x")); !errors.Is(err, tunnel.ErrClosed) {
			t.Errorf("serve after stop: %v", err)
		}
	} else {
		time.Sleep(2 * time.Minute)
		probe(t, r)
		if n, _ := r.Tunnels(t.Context()); len(n) != 800 {
			t.Errorf("%d tunnels, %d served, %d not", len(n), got, late)
		}
	}
	for _, leaver := range leavers {
		leaver()
	}
	all.Wait()
}

// model is what a registry is, for one thing at a time: which tunnels each agent has, and who waits for it.
type model struct {
	stopped bool
	up      map[string][]*tunnel.Tunnel
	waiting map[string][]int
	answer  map[int]func(*tunnel.Tunnel, error) bool // of each finder: what it may get, once it must have an answer
}

func (m *model) join(t *tunnel.Tunnel) {
	if m.stopped {
		return
	}
	m.up[t.ID()] = append(m.up[t.ID()], t)
	for _, f := range m.waiting[t.ID()] {
		m.answer[f] = func(got *tunnel.Tunnel, err error) bool { return got == t && err == nil }
	}
	delete(m.waiting, t.ID())
}

func (m *model) leave(t *tunnel.Tunnel) {
	m.up[t.ID()] = slices.DeleteFunc(m.up[t.ID()], func(u *tunnel.Tunnel) bool { return u == t })
}

func (m *model) find(f int, id string) {
	if up := slices.Clone(m.up[id]); m.stopped {
		m.answer[f] = func(_ *tunnel.Tunnel, err error) bool { return errors.Is(err, tunnel.ErrClosed) }
	} else if len(up) > 0 {
		m.answer[f] = func(got *tunnel.Tunnel, err error) bool { return err == nil && slices.Contains(up, got) }
	} else {
		m.waiting[id] = append(m.waiting[id], f)
	}
}

func (m *model) cancel(f int, id string) {
	if i := slices.Index(m.waiting[id], f); i >= 0 {
		m.waiting[id] = slices.Delete(m.waiting[id], i, i+1)
		m.answer[f] = func(_ *tunnel.Tunnel, err error) bool { return errors.Is(err, context.Canceled) }
	}
}

func (m *model) stop() {
	m.stopped = true
	for id, waiting := range m.waiting {
		for _, f := range waiting {
			m.find(f, id)
		}
	}
	m.up, m.waiting = map[string][]*tunnel.Tunnel{}, map[string][]int{}
}

// Each step is done by a goroutine of its own; after it, or after a burst of steps that commute (those of different agents),
// the registry must be where the model is.
func TestRegistryIsItsModel(t *testing.T) {
	t.Parallel()
	seeds := 1500
	if testing.Short() {
		seeds = 300
	}
	reached := make(map[string]int)
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { compareWithModel(t, uint64(seed), reached) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, step := range []string{"join", "leave", "done", "both ends", "find", "find waits", "cancel", "cancel late", "stop", "after stop"} {
		if reached[step] < seeds/20 {
			t.Errorf("only %d times: %s", reached[step], step)
		}
	}
	t.Log(reached)
}

type finder struct {
	id       string
	cancel   context.CancelFunc
	answered bool
	tun      *tunnel.Tunnel
	err      error
}

type server struct {
	tun    *tunnel.Tunnel
	cancel context.CancelFunc
}

func compareWithModel(t *testing.T, seed uint64, reached map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	r, stop := runRegistry(t)
	m := &model{up: map[string][]*tunnel.Tunnel{}, waiting: map[string][]int{}, answer: map[int]func(*tunnel.Tunnel, error) bool{}}
	var finders []*finder
	var servers []server
	var all sync.WaitGroup
	var mu sync.Mutex // of what finders write
	for range 10 + random.IntN(40) {
		// A burst: at most one step for each agent, so that their order is of no matter.
		for _, id := range []string{"a", "b", "c"}[:1+random.IntN(3)] {
			mine := slices.DeleteFunc(slices.Clone(servers), func(s server) bool {
				return s.tun.ID() != id || !slices.Contains(m.up[id], s.tun)
			})
			if m.stopped {
				reached["after stop"]++
			}
			switch step := random.IntN(10); {
			case step < 3:
				reached["join"]++
				ctx, cancel := context.WithCancel(t.Context())
				s := server{tunnel.NewStub(id), cancel}
				servers = append(servers, s)
				all.Go(func() { _ = r.Serve(ctx, s.tun) })
				m.join(s.tun)
			case step < 6 && len(mine) > 0:
				s := mine[random.IntN(len(mine))]
				m.leave(s.tun)
				switch random.IntN(3) {
				case 0:
					reached["leave"]++
					all.Go(s.cancel)
				case 1:
					reached["done"]++
					all.Go(func() { s.tun.Close(errUsedUp) })
				default:
					reached["both ends"]++
					all.Go(s.cancel)
					all.Go(func() { s.tun.Close(errUsedUp) })
				}
			case step < 8:
				reached["find"]++
				ctx, cancel := context.WithCancel(t.Context())
				f := &finder{id: id, cancel: cancel}
				finders = append(finders, f)
				m.find(len(finders)-1, id)
				if m.answer[len(finders)-1] == nil {
					reached["find waits"]++
				}
				all.Go(func() {
					tun, err := r.Find(ctx, id)
					mu.Lock()
					defer mu.Unlock()
					f.answered, f.tun, f.err = true, tun, err
				})
			default:
				for i, f := range finders {
					if f.id == id && random.IntN(2) == 0 {
						reached["cancel"]++
						if m.answer[i] != nil {
							reached["cancel late"]++
						}
						m.cancel(i, id)
						all.Go(f.cancel)
					}
				}
			}
		}
		if random.IntN(40) == 0 && !m.stopped {
			synctest.Wait()
			reached["stop"]++
			m.stop()
			stop()
		}
		synctest.Wait()
		for i, f := range finders {
			mu.Lock()
			want := m.answer[i]
			if want == nil && f.answered || want != nil && (!f.answered || !want(f.tun, f.err)) {
				t.Errorf("finder %d of %s: answered %v, %v, %v", i, f.id, f.answered, f.tun, f.err)
			}
			mu.Unlock()
		}
		got, err := r.Tunnels(t.Context())
		if m.stopped != errors.Is(err, tunnel.ErrClosed) {
			t.Errorf("tunnels: %v", err)
		}
		want := slices.Concat(m.up["a"], m.up["b"], m.up["c"])
		if len(got) != len(want) || slices.ContainsFunc(got, func(t *tunnel.Tunnel) bool { return !slices.Contains(want, t) }) {
			t.Errorf("%d tunnels, want %d", len(got), len(want))
		}
	}
	for _, s := range servers {
		s.cancel()
	}
	for _, f := range finders {
		f.cancel()
	}
	all.Wait()
}

// The same with connections: what runs through a tunnel ends at once with the registry.
func TestStopEndsCallsAndAgentsComeBackElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := make(chan struct{})
		w.agent("a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
		}), nil)
		result := make(chan error, 1)
		go func() { _, err := get(t.Context(), w.registry.Transport("a"), "/x"); result <- err }()
		<-began
		w.stop(errTestOver)
		if err := <-result; !errors.Is(err, tunnel.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
