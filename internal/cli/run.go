package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
	"github.com/towpath/towpath/internal/plan"
)

// runOptions are the flags of run and retry.
type runOptions struct {
	file      string
	atomsFrom string
	glob      []string
	only      []string
	junit     string
	report    string
	noCases   bool
	failFast  bool
	retries   int
	batch     int
}

func newRun(c *command) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [JOB] [-- COMMAND...]",
		Short: "Run a job of towpath.yaml, the tests that are recognised here, or a command",
		Long: `Runs the atoms of a job over the slots of this machine and ends with one summary and an exit code.

Without towpath.yaml the project is recognised by its files. After -- any command runs: once for
each atom where a word holds {}, which is replaced by the atom without a shell in between. Its
atoms are the lines of --atoms-from, or the files of --glob, or the lines of standard input.`,
		Example: `  towpath run
  towpath run lint
  ls tests/*.sh | towpath run -- sh {}
  towpath run --glob 'tests/**/*.sh' -- sh {}
  towpath run -- make test`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			var argv []string
			if dash >= 0 {
				args, argv = args[:dash], args[dash:]
			}
			if o.retries < 0 || o.batch < 0 {
				return towpath.Errorf(towpath.CodeUsage, "--retries is %d and --batch %d: neither can be below 0", o.retries, o.batch)
			}
			if len(args) > 1 {
				return towpath.Errorf(towpath.CodeUsage, "run takes one job, and got %s: a command stands after --", strings.Join(args, " "))
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			job, err := c.job(name, argv, dash >= 0, o)
			if err != nil {
				return err
			}
			job, only, err := o.override(cmd, job)
			if err != nil {
				return err
			}
			return c.runJob(cmd.Context(), job, only, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", plan.FileName, "the file that describes the jobs")
	f.StringVar(&o.atomsFrom, "atoms-from", "", "with a command: the file whose lines are the atoms, - for standard input")
	f.StringArrayVar(&o.glob, "glob", nil, "with a command: the files that are the atoms; ** crosses directories")
	f.StringArrayVar(&o.only, "only", nil, "run this atom only; may be repeated")
	f.BoolVar(&o.failFast, "fail-fast", false, "start nothing more once an atom has failed")
	f.IntVar(&o.retries, "retries", 0, "rerun failed cases up to so many times, to tell flaky from broken")
	f.IntVar(&o.batch, "batch", 0, "hand out exactly so many atoms together")
	c.reportFlags(cmd, &o)
	return cmd
}

func (c *command) reportFlags(cmd *cobra.Command, o *runOptions) {
	f := cmd.Flags()
	f.StringVar(&o.junit, "junit", "", "write one merged JUnit file here")
	f.StringVar(&o.report, "report", "", "write one merged JSON file here")
	f.BoolVar(&o.noCases, "no-cases", false, "with --json: leave out the line for each case")
}

// job finds what to run: the command after --, the file's job, or what is recognised.
func (c *command) job(name string, argv []string, dash bool, o runOptions) (towpath.Job, error) {
	switch {
	case dash && name != "":
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "run takes a job or a command after --, not both (job %q)", name)
	case dash:
		return c.commandJob(argv, o)
	case o.atomsFrom != "" || len(o.glob) > 0:
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "--atoms-from and --glob go with a command: towpath run --glob 'tests/*.sh' -- sh {}")
	}
	here := os.DirFS(".")
	if _, err := fs.ReadDir(here, "."); err != nil {
		return towpath.Job{}, towpath.Errorf(towpath.CodeConfig, "the workspace cannot be read: %w; make the directory readable for this user", err)
	}
	folder, base := here, filepath.ToSlash(o.file)
	if !fs.ValidPath(path.Clean(base)) { // outside of the workspace
		folder, base = os.DirFS(filepath.Dir(o.file)), filepath.Base(o.file)
	}
	file, err := plan.LoadFrom(here, folder, base, o.file)
	if err == nil {
		return file.Job(name)
	}
	if !errors.Is(err, fs.ErrNotExist) || o.file != plan.FileName {
		return towpath.Job{}, err
	}
	found, rerr := plan.Recognize(here)
	if rerr != nil {
		return towpath.Job{}, rerr
	}
	if above := fileAbove(); len(found) == 0 && above != "" {
		return towpath.Job{}, towpath.Errorf(towpath.CodeConfig, "there is no %s here and nothing that Towpath recognises, but %s is there: run towpath in its directory", plan.FileName, above)
	}
	return plan.Choose(found, name)
}

// fileAbove finds a file of jobs in the directories above this one, up to the root of its repository; "" if there is none.
func fileAbove() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil || filepath.Dir(dir) == dir {
			return ""
		}
		dir = filepath.Dir(dir)
		if info, err := os.Stat(filepath.Join(dir, plan.FileName)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(dir, plan.FileName)
		}
	}
}

func (c *command) commandJob(argv []string, o runOptions) (towpath.Job, error) {
	var source towpath.AtomSource
	switch {
	case len(o.glob) > 0 && o.atomsFrom != "":
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "--atoms-from and --glob exclude each other")
	case len(o.glob) > 0:
		source.Glob = o.glob
	case o.atomsFrom == "-" || o.atomsFrom == "" && hasPlaceholder(argv):
		if f, ok := c.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintln(c.err, "towpath: reading the atoms from standard input, one a line, until Ctrl-D")
		}
		lines, err := readLines(c.in)
		if err != nil {
			return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "the atoms cannot be read from standard input: %w", err)
		}
		if len(lines) == 0 {
			return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "no atoms: {} stands for a line of standard input, which is empty; give lines, --glob or --atoms-from")
		}
		source.List = lines
	case o.atomsFrom != "":
		f, err := os.Open(o.atomsFrom)
		if err != nil {
			return towpath.Job{}, towpath.Errorf(towpath.CodeConfig, "the list of atoms cannot be read: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		if source.List, err = readLines(f); err != nil {
			return towpath.Job{}, towpath.Errorf(towpath.CodeConfig, "the list of atoms %s cannot be read: %w", o.atomsFrom, err)
		}
		if len(source.List) == 0 {
			return towpath.Job{}, towpath.Errorf(towpath.CodeConfig, "no atoms: %s has no lines", o.atomsFrom)
		}
	}
	if len(argv) > 0 && !strings.Contains(argv[0], "{}") {
		if _, err := exec.LookPath(argv[0]); err != nil && !errors.Is(err, exec.ErrDot) {
			return towpath.Job{}, towpath.Errorf(towpath.CodeConfig, "the command %q cannot be run: %w; install it, or give its path", argv[0], err)
		}
	}
	return plan.FromCommand(argv, source)
}

func hasPlaceholder(argv []string) bool {
	for _, word := range argv {
		if strings.Contains(word, "{}") {
			return true
		}
	}
	return false
}

// readLines reads lines that are not empty.
func readLines(r io.Reader) ([]string, error) {
	var lines []string
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if sc.Text() != "" {
			lines = append(lines, sc.Text())
		}
	}
	return lines, sc.Err()
}

// runJob runs a job here, shows it, writes the reports, and returns what the program exits with.
func (c *command) runJob(ctx context.Context, job towpath.Job, only []towpath.Selection, o runOptions) error {
	if err := errors.Join(fits(job, c.set.number("slots"), localLabels(hostName())), checkReports(o)); err != nil {
		return err
	}
	local, err := c.startLocal(ctx)
	if err != nil {
		return err
	}
	b, err := c.follow(ctx, local, job, only, o)
	if stopErr := local.stop(errors.Is(err, errKilled)); stopErr != nil {
		err = errors.Join(err, stopErr)
	}
	if err != nil && b.State == towpath.BuildFailed {
		c.printError(err) // as a report that cannot be written; that tests failed is still what counts
		return exitError(exitFailed)
	}
	if err != nil {
		return err
	}
	return exitError(buildExit(b))
}

func (c *command) follow(ctx context.Context, local *local, job towpath.Job, only []towpath.Selection, o runOptions) (towpath.BuildInfo, error) {
	n, err := local.client.Submit(ctx, client.Submission{Project: local.project, Job: job, Only: only, By: c.getenv("USER")})
	if err != nil {
		return towpath.BuildInfo{}, err
	}
	w := &watcher{client: local.client, view: c.renderer(o), kill: c.kill}
	b, err := w.watch(ctx, n)
	if err != nil {
		return b, err
	}
	if err := c.settle(context.WithoutCancel(ctx), local, n); err != nil {
		return b, err
	}
	return b, c.writeReports(context.WithoutCancel(ctx), local.client, b, o)
}

// settle waits for what a build leaves behind when it ends early: attempts that are told to end, and teardowns. The limits
// of these bound the wait; an interrupt beyond the one that canceled the build ends it at once.
func (c *command) settle(ctx context.Context, local *local, n towpath.BuildNumber) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1) // room for its one value
	go func() { done <- local.settled(ctx, n) }()
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-patience.C:
			fmt.Fprintf(c.err, "towpath: build %d winds down: waiting for its processes to end and its teardown; a second Ctrl-C does not wait\n", n)
		case <-c.kill:
			cancel(errKilled)
			return errors.Join(errKilled, ignoreKilled(<-done))
		}
	}
}

func ignoreKilled(err error) error {
	if errors.Is(err, errKilled) {
		return nil
	}
	return err
}

func (c *command) renderer(o runOptions) renderer {
	slots := c.set.number("slots")
	if c.json {
		return newJSONLines(c.out, !o.noCases)
	}
	if tty, ok := c.terminal(); ok {
		return &live{tty: tty, paint: c.paint(), slots: slots}
	}
	return &plain{out: c.out, paint: c.paint(), slots: slots}
}

// buildExit maps how a build ended to the exit code.
func buildExit(b towpath.BuildInfo) int {
	switch b.State {
	case towpath.BuildPassed:
		return exitPassed
	case towpath.BuildFailed:
		return exitFailed
	case towpath.BuildCanceled:
		return exitCanceled
	case towpath.BuildErrored:
		if b.Code == towpath.CodeConfig {
			return exitUsage
		}
		if b.Atoms.Failed > 0 {
			return exitFailed
		}
		return exitInfrastructure
	case towpath.BuildListing, towpath.BuildRunning:
	}
	return exitInfrastructure
}
