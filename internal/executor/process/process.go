// Package process runs the commands of attempts as process trees on this host. A task's processes are kept together by a
// session of their own and, where the host allows, a cgroup v2; elsewhere by adopting the orphans of the tree. However a
// task ends, the whole tree is gone before Run returns, and if this process is killed a guard process ends its tasks. The
// agent calls it. It never interprets output or exit codes, and never retries.
//
// A program that holds an Executor must not start children with a session of their own by other means: such a child
// would be taken for an orphan of a task.
package process

import (
	"log/slog"
	"time"
)

// GuardArg is the argument with which the program must call GuardMain instead of its own main.
const GuardArg = "__guard"

// Config configures an Executor. The zero value works, without a guard.
type Config struct {
	// Guard is the start of a command line that makes a process call GuardMain with what follows, as
	// {"/usr/bin/towpath", GuardArg}. Nil: tasks may outlive this process if it is killed, until the next New.
	Guard []string
	// Logger is told of what is worth knowing beside results. Nil: nobody is.
	Logger *slog.Logger
	// WithoutCgroup makes the Executor act as on a host without a usable cgroup.
	WithoutCgroup bool
}

// The limits of what is waited for once a task is over or told to stop.
const (
	defaultGrace = 5 * time.Second
	startLimit   = 30 * time.Second       // for the kernel to start a command
	lingerLimit  = 300 * time.Millisecond // for processes that the main process left behind to end by themselves
	leaveLimit   = 300 * time.Millisecond // from TERM to KILL for those that do not
	killLimit    = 5 * time.Second        // for killed processes to be gone
	drainLimit   = time.Second            // for output pipes that are held open by someone outside of the tree
	takeLimit    = 5 * time.Second        // for a writer to take the last output
	busyWindow   = 300 * time.Millisecond // over which Busy is measured
)
