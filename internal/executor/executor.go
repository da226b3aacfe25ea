// Package executor is what it means to run one command for an attempt: a Task goes in, its output streams out, and a
// Result says how it ended and why. The agent calls it; how a command is really run (a process tree on this host, later
// a pod) is the business of the packages below. It knows nothing of builds, atoms or reports.
package executor

import (
	"context"
	"io"
	"time"
)

// Executor runs commands. Its methods may be called from many goroutines.
type Executor interface {
	// Run runs the task until all its processes are gone, in bounded time after it was told to stop. Ending ctx stops
	// it, with context.Cause as the reason. An error means that the command could not be started or that it is not known
	// how it ended; a command that fails is a Result.
	Run(ctx context.Context, t Task) (Result, error)
}

// Task is one command.
type Task struct {
	ID      string   // unique among those running, usable as a file name; leftovers of earlier tasks are found by it
	Argv    []string // Argv[0] is looked up in the task's own PATH
	Dir     string
	Env     []string  // the whole environment
	Stdout  io.Writer // each is written by one goroutine at a time; may be the same writer
	Stderr  io.Writer
	Limit   time.Duration // wall time; 0: none
	Silence time.Duration // longest time without output; 0: none
	Grace   time.Duration // from TERM to KILL; 0: 5 s
	Memory  int64         // bytes, where the host can enforce it; 0: none
}

// End says why a task ended.
type End string

// The ways in which a task ends.
const (
	EndExited   End = "exited"  // by itself, with an exit code or by a signal
	EndLimit    End = "limit"   // at Task.Limit
	EndSilence  End = "silence" // at Task.Silence
	EndCanceled End = "canceled"
	EndMemory   End = "memory" // killed for want of memory
)

// Result says how a task ended.
type Result struct {
	End       End
	ExitCode  int    // -1 if a signal ended the main process
	Signal    string // its name, as SIGSEGV
	Wall      time.Duration
	CPU       time.Duration // user and system, of the whole tree as far as it is known
	MaxRSS    int64         // bytes
	Busy      float64       // at a stop for limit or silence: CPU seconds per second in the last moments before; tells spinning from blocked
	Leftovers []Process     // outlived the main process and were killed
}

// Process is one process of a task's tree, for people.
type Process struct {
	PID     int
	Command string
}
