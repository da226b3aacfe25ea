// Package towpath holds the nouns of Towpath: jobs, builds, atoms, attempts, sessions and cases, the states they
// can be in, the inputs and events that move them, the commands that follow from events, and the error codes that
// people outside see. Everything else of Towpath imports it; it imports the standard library only, does no I/O,
// reads no clock and starts no goroutine.
package towpath

// BuildNumber numbers the builds of one state directory or server, from 1, without reuse.
type BuildNumber int64

// AttemptID names one execution of a subjob by one session. It is random and never reused.
type AttemptID string

// SessionID names one registration of an agent, from its hello to its end. It is random and never reused.
type SessionID string
