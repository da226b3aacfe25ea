package tunnel

import "sync"

// calls counts the calls of a handler, and lets one wait for the end of all. A sync.WaitGroup would not do: HTTP/2 may begin
// a call while the connection's end is waited for.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0
}

func newCalls() *calls { return &calls{idle: make(chan struct{})} }

// enter reports whether the call may begin; if so, leave is called at its end.
func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	return true
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.closed && c.n == 0 {
		close(c.idle)
	}
}

// end lets no more calls begin, and waits for those that have. It is called once.
func (c *calls) end() {
	c.close()
	<-c.idle
}

func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.n == 0 {
		close(c.idle)
	}
}
