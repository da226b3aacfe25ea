// Package cli is the command line: one file a command, what it prints, and what it exits with. It reads the environment,
// puts a local server and agent together for `towpath run`, and speaks to builds through the client package only, so that
// every command works alike for builds here and on a server.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
)

// Version is what `towpath version` prints; the build may set it.
var Version = "0.1.0-dev"

// The exit codes, as documented in docs/cli.md.
const (
	exitPassed         = 0
	exitFailed         = 1
	exitUsage          = 2
	exitInfrastructure = 3
	exitRefused        = 4
	exitCanceled       = 130
)

// exitError carries an exit code whose reason was already printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// command is what each command gets: its streams and what is in force.
type command struct {
	out, err io.Writer
	in       io.Reader
	getenv   func(string) string
	set      settings
	json     bool
	kill     <-chan struct{} // closed at the second interrupt: give up at once
}

// Main runs the command line and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, kill, stop := interrupts()
	defer stop()
	out := &checkedWriter{w: stdout}
	c := &command{out: out, err: stderr, in: stdin, getenv: os.Getenv, kill: kill}
	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code, said := errors.AsType[exitError](err)
	switch {
	case err == nil, said && code == exitPassed:
		if out.err == nil {
			return exitPassed
		}
		err = towpath.Errorf(towpath.CodeUnavailable, "standard output cannot be written, and what it has is not whole: %w", out.err)
	case said:
		return int(code)
	}
	c.printError(err)
	return exitCode(err)
}

// checkedWriter remembers that something could not be written, for those who print and cannot stop for that.
type checkedWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}

// errInterrupted is why a context ended at the first interrupt.
var errInterrupted = towpath.Errorf(towpath.CodeCanceled, "interrupted")

// together is how close two signals are that mean one interrupt: a wrapper often passes on what the terminal has already
// sent to the whole process group.
const together = 250 * time.Millisecond

// interrupts returns a context that ends at the first SIGINT, SIGTERM or SIGHUP, and a channel that closes at the second.
func interrupts() (ctx context.Context, kill <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, second, done := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{}) // room for both interrupts
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		defer close(done)
		if _, ok := <-signals; !ok {
			return
		}
		first := time.Now()
		cancel(errInterrupted)
		for range signals {
			if time.Since(first) > together {
				close(second)
				return
			}
		}
	}()
	return ctx, second, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel(nil)
	}
}

func newRoot(c *command) *cobra.Command {
	root := &cobra.Command{
		Use:           "towpath",
		Version:       Version,
		Short:         "Run a test suite on every core you own, and always know why it is not finished",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			set, err := loadSettings(cmd.Flags(), c.getenv)
			c.set = set
			return err
		},
	}
	declareSettings(root.PersistentFlags())
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print one JSON object a line")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return towpath.Errorf(towpath.CodeUsage, "%v; `%s --help` lists the flags", err, cmd.CommandPath())
	})
	root.AddCommand(newRun(c), newInit(c), newPs(c), newShow(c), newLogs(c), newCancel(c), newRetry(c), newConfig(c), newVersion(c))
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}

// atMost refuses more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return towpath.Errorf(towpath.CodeUsage, "unexpected argument %q: `%s --help` shows what it takes", args[n], cmd.CommandPath())
		}
		return nil
	}
}

// printError prints an error to people: its first line says all, further lines are further faults.
func (c *command) printError(err error) {
	message := err.Error()
	if errors.Is(err, errInterrupted) {
		message = "interrupted"
	}
	fmt.Fprintln(c.err, "towpath: "+strings.TrimRight(message, "\n"))
}

// exitCode maps an error to what the program exits with.
func exitCode(err error) int {
	switch towpath.CodeOf(err) {
	case "":
		return exitPassed
	case towpath.CodeUsage, towpath.CodeConfig, towpath.CodeNotFound, towpath.CodeConflict:
		return exitUsage
	case towpath.CodeForbidden, towpath.CodeUnauthenticated:
		return exitRefused
	case towpath.CodeCanceled:
		return exitCanceled
	case towpath.CodeUnavailable, towpath.CodeSessionLost:
		return exitInfrastructure
	case towpath.CodeInternal:
		if strings.HasPrefix(err.Error(), "unknown command") { // cobra's own
			return exitUsage
		}
		return exitInfrastructure
	}
	return exitInfrastructure
}
