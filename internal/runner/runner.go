// Package runner knows the test runners: what each must be given to run some atoms, or only some cases of them, and what
// its output, report files and exit codes mean, as cases and as one truthful outcome an atom. One file a runner. The agent
// calls it for each command it starts. It starts no process itself but through the function it is handed.
package runner

import (
	"context"
	"io"
	"time"

	"github.com/towpath/towpath"
)

// Runner knows one kind of test runner. A Runner has no state and may be used from many goroutines.
type Runner interface {
	// Begin prepares one command for the given units. The Command says what to execute; the Reading follows it. Without an
	// error the Reading must be closed, also if the command could not be started.
	Begin(ctx context.Context, s Spec) (Command, Reading, error)
}

// Spec is what a runner is told of one command.
type Spec struct {
	Job     *towpath.Job
	Units   []towpath.OfferedUnit // exactly one if Job.PerAtom, or if it is a part of a split atom
	Base    Command               // the job's own command for these units: shell or argv, with the atoms as arguments
	Dir     string                // the workspace
	Reports string                // $TOWPATH_REPORTS: an empty directory of this attempt's own
	Scratch string                // a directory that lasts as long as the session: plugin files, compiled test binaries
	Events  Events
	// Exec runs a short helper command (a listing, a compilation) to its end within limit, in the attempt's process tree.
	Exec func(ctx context.Context, c Command, limit time.Duration) (stdout, stderr []byte, exit int, err error)
}

// Command is what to execute.
type Command struct {
	Argv []string
	Dir  string
	Env  []string // added to the attempt's environment, later entries win
}

// Events is told what becomes known while a command runs. Unit indexes count Spec.Units; -1 is the command as a whole.
// Calls come from the goroutines that write into the Reading, or from Close.
type Events interface {
	Began(unit int)
	// Output brings text for people: what belongs to the unit, already freed of machine framing such as JSON.
	Output(unit int, p []byte)
	// Done brings a unit's report before the command has ended. It is said at most once a unit and stands.
	Done(unit int, r towpath.AtomReport)
}

// Reading follows one command.
type Reading interface {
	// Stdout and Stderr take the command's output as it comes. They never fail and may be the same writer.
	Stdout() io.Writer
	Stderr() io.Writer
	// Close is called once, after the command has ended and its output is complete. It returns the reports of all units
	// that Events.Done did not already bring, by unit index.
	Close(ctx context.Context, e Ended) (map[int]towpath.AtomReport, error)
}

// Ended says how the command ended.
type Ended struct {
	ExitCode int             // -1 if a signal ended it
	Signal   string          // as SIGSEGV
	Stopped  towpath.Outcome // "" if it ended by itself; else OutcomeTimedOut or OutcomeCanceled
	Reason   string          // one line for people: "exit status 7", "no output for 8s (blocked, no CPU used)", "killed: out of memory"
	Started  time.Time
	Wall     time.Duration
}
