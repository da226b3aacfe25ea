package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

// rig runs commands of real tools the way the agent does.
type rig struct {
	t       *testing.T
	dir     string
	scratch string
	limit   time.Duration                           // end the command after this long, as at its time limit
	until   string                                  // or as soon as the events' output contains this
	when    func(f *fileLog, running []string) bool // or as soon as this holds for a file
	env     []string
	glob    string // of the job's report
}

// heard collects what a Reading tells.
type heard struct {
	mu    sync.Mutex
	text  map[int]*bytes.Buffer
	began []int
	done  map[int]towpath.AtomReport
	until string
	seen  chan struct{}
	once  sync.Once
}

// watched looks at what is known after each piece of output.
type watched struct {
	io.Writer
	look func()
}

func (w watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.look()
	return n, err
}

func (h *heard) Began(unit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = append(h.began, unit)
}

func (h *heard) Output(unit int, p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text[unit] == nil {
		h.text[unit] = new(bytes.Buffer)
	}
	h.text[unit].Write(p)
	if h.until != "" && strings.Contains(h.text[unit].String(), h.until) {
		h.once.Do(func() { close(h.seen) })
	}
}

func (h *heard) Done(unit int, r towpath.AtomReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.done[unit]; twice {
		panic("a unit was reported twice")
	}
	h.done[unit] = r
}

// outcome is what a run found.
type outcome struct {
	reports map[int]towpath.AtomReport
	heard   *heard
	exit    int
}

func (o outcome) text(unit int) string {
	if b := o.heard.text[unit]; b != nil {
		return b.String()
	}
	return ""
}

// project writes files into a fresh folder.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// need skips the test, with the tool's name, if it is not installed; with TOWPATH_TEST_REQUIRE=all that is a failure.
func need(t *testing.T, tool, remedy string, have bool) {
	t.Helper()
	if have {
		return
	}
	if os.Getenv("TOWPATH_TEST_REQUIRE") == "all" {
		t.Fatalf("%s is not installed: %s", tool, remedy)
	}
	t.Skipf("SKIPPED: %s is not installed: %s", tool, remedy)
}

func needTool(t *testing.T, tool, remedy string) {
	t.Helper()
	_, err := exec.LookPath(tool)
	need(t, tool, remedy, err == nil)
}

// modules links the installed node_modules into dir and skips if the package is not among them.
func modules(t *testing.T, dir, pkg string) {
	t.Helper()
	root := os.Getenv("TOWPATH_TEST_NODE")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		root = filepath.Join(cache, "towpath-test", "node")
	}
	from := filepath.Join(root, "node_modules")
	_, err := os.Stat(filepath.Join(from, pkg, "package.json"))
	need(t, pkg, "install it in "+root+" with npm", err == nil)
	needTool(t, "node", "install Node.js")
	if err := os.Symlink(from, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
}

func units(names ...string) []towpath.OfferedUnit {
	list := make([]towpath.OfferedUnit, len(names))
	for i, n := range names {
		list[i].Name = n
	}
	return list
}

// run runs the job's text for the units.
func (g rig) run(r Runner, kind towpath.ReportKind, text string, list []towpath.OfferedUnit) outcome {
	t := g.t
	t.Helper()
	if g.scratch == "" {
		g.scratch = t.TempDir()
	}
	argv := []string{"bash", "-eo", "pipefail", "-c", text, "towpath"}
	env := append([]string{"CI=true"}, g.env...)
	for _, u := range list {
		argv = append(argv, u.Name)
	}
	if len(list) == 1 {
		env = append(env, "TOWPATH_ATOM="+list[0].Name)
	}
	h := &heard{text: map[int]*bytes.Buffer{}, done: map[int]towpath.AtomReport{}, until: g.until, seen: make(chan struct{})}
	spec := Spec{
		Job:   &towpath.Job{Name: "test", Run: text, Report: towpath.Report{Kind: kind, Glob: g.glob}, PerAtom: len(list) == 1},
		Units: list, Base: Command{Argv: argv, Dir: g.dir, Env: env},
		Dir: g.dir, Reports: t.TempDir(), Scratch: g.scratch, Events: h,
		Exec: func(ctx context.Context, c Command, limit time.Duration) ([]byte, []byte, int, error) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
			cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return out.Bytes(), errs.Bytes(), exit.ExitCode(), nil
			}
			return out.Bytes(), errs.Bytes(), 0, err
		},
	}
	command, reading, err := r.Begin(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	end := g.execute(command, reading, h)
	reports, err := reading.Close(t.Context(), end)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range h.done {
		if _, twice := reports[i]; twice {
			t.Errorf("unit %d was reported by Done and by Close", i)
		}
		reports[i] = r
	}
	for i, u := range list {
		r, ok := reports[i]
		if !ok {
			t.Errorf("%s has no report", u.Name)
		}
		if r.Outcome != towpath.OutcomePassed && r.Reason == "" {
			t.Errorf("%s is %s without a reason", u.Name, r.Outcome)
		}
		if t.Failed() || testing.Verbose() {
			t.Logf("%s: %s %q %+v failed=%q\n%s%s", u.Name, r.Outcome, r.Reason, r.Counts, r.Failed, listCases(r), h.text[i])
		}
	}
	if h.text[-1] != nil {
		t.Logf("output: %s", h.text[-1])
	}
	return outcome{reports, h, end.ExitCode}
}

func listCases(r towpath.AtomReport) string {
	var b strings.Builder
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "  %s %q %q select=%q %v\n", c.State, c.Name, c.Message, c.Select, c.Duration)
	}
	return b.String()
}

// hangs says that a case called hangs runs, and one before it has ended.
func hangs(f *fileLog, running []string) bool {
	return slices.Contains(running, "hangs") && len(f.results) > 0
}

func (g rig) execute(c Command, r Reading, h *heard) Ended {
	t := g.t
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = r.Stdout(), r.Stderr()
	e, _ := r.(*eventReading)
	if p, ok := r.(*phpunitReading); ok {
		e = p.eventReading
	}
	if e != nil && g.when != nil {
		look := func() {
			e.log.turn <- struct{}{}
			defer func() { <-e.log.turn }()
			for i := range e.files {
				if g.when(&e.files[i], e.unfinished(&e.files[i])) {
					h.once.Do(func() { close(h.seen) })
				}
			}
		}
		cmd.Stdout, cmd.Stderr = watched{r.Stdout(), look}, watched{r.Stderr(), look}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := Ended{Started: time.Now()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var late <-chan time.Time
	if g.limit > 0 {
		late = time.After(g.limit)
	}
	var err error
	select {
	case err = <-ended:
	case <-late:
		end.Stopped, end.Reason = towpath.OutcomeTimedOut, "took longer than "+g.limit.String()
	case <-h.seen:
		end.Stopped, end.Reason = towpath.OutcomeTimedOut, "no output for 8s"
	}
	if end.Stopped != "" {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		err = <-ended
	}
	end.Wall = time.Since(end.Started)
	end.ExitCode = cmd.ProcessState.ExitCode()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if end.Reason == "" {
		end.Reason = fmt.Sprintf("exit status %d", end.ExitCode)
	}
	return end
}

func (o outcome) check(t *testing.T, unit int, want towpath.Outcome, reason string) {
	t.Helper()
	r := o.reports[unit]
	if r.Outcome != want {
		t.Errorf("unit %d: outcome %s, want %s (%s)", unit, r.Outcome, want, r.Reason)
	}
	if !strings.Contains(strings.ToLower(r.Reason), strings.ToLower(reason)) {
		t.Errorf("unit %d: reason %q, want it to contain %q", unit, r.Reason, reason)
	}
}

// states lists a unit's cases as "state name".
func (o outcome) states(unit int) []string {
	var list []string
	for _, c := range o.reports[unit].Cases {
		list = append(list, string(c.State)+" "+c.Name)
	}
	slices.Sort(list)
	return list
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
