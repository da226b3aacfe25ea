package session

import (
	"sync"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/wire"
)

// mailbox holds what waits to be sent to an agent. Whoever fills it never waits.
type mailbox struct {
	wake chan struct{} // holds one token while there may be something to send
	room int

	mu      sync.Mutex
	waiting outgoing // +checklocks:mu
}

// outgoing is what one message to the agent carries. Of echoes and acknowledgements only the last counts.
type outgoing struct {
	echo     *wire.Echo
	ack      *wire.Ack
	commands []towpath.Command
	drain    bool
	refusal  *towpath.Error
}

func (o *outgoing) empty() bool {
	return o.echo == nil && o.ack == nil && len(o.commands) == 0 && !o.drain && o.refusal == nil
}

func newMailbox(room int) *mailbox {
	return &mailbox{wake: make(chan struct{}, 1), room: room}
}

// command adds cmd and says whether there was room.
func (m *mailbox) command(cmd towpath.Command) bool {
	m.mu.Lock()
	full := len(m.waiting.commands) >= m.room
	if !full {
		m.waiting.commands = append(m.waiting.commands, cmd)
	}
	m.mu.Unlock()
	m.signal()
	return !full
}

func (m *mailbox) echo(stamp int64) {
	m.mu.Lock()
	m.waiting.echo = &wire.Echo{StampNs: stamp}
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) ack(number uint64) {
	m.mu.Lock()
	m.waiting.ack = &wire.Ack{Number: number}
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) drain() {
	m.mu.Lock()
	m.waiting.drain = true
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) refuse(err *towpath.Error) {
	m.mu.Lock()
	m.waiting.refusal = err
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() outgoing {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.waiting
	m.waiting = outgoing{}
	return o
}

// inbox holds what an agent said until the sink has taken it.
type inbox struct {
	wake chan struct{} // holds one token while there may be something to deliver
	room int

	mu      sync.Mutex
	waiting []*wire.Up // +checklocks:mu
	bytes   int        // +checklocks:mu
}

func newInbox(room int) *inbox {
	return &inbox{wake: make(chan struct{}, 1), room: room}
}

// put adds ups of about so many bytes and says whether there was room.
func (i *inbox) put(ups []*wire.Up, bytes int) bool {
	i.mu.Lock()
	i.waiting = append(i.waiting, ups...)
	i.bytes += bytes
	full := i.bytes > i.room
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
	return !full
}

func (i *inbox) take() []*wire.Up {
	i.mu.Lock()
	defer i.mu.Unlock()
	ups := i.waiting
	i.waiting, i.bytes = nil, 0
	return ups
}
