// Package e2e tests the whole program: the binary that people get, on real projects, with real processes and signals.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// binary is the program under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "towpath-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory fails no test
	binary = filepath.Join(dir, "towpath")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/towpath/towpath/cmd/towpath")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build towpath:", err)
		return 1
	}
	return m.Run()
}

// project is a directory in which towpath runs, with a state directory of its own.
type project struct {
	t     *testing.T
	dir   string
	state string
	env   []string
}

func newProject(t *testing.T, files map[string]string) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir(), state: t.TempDir()}
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// environ is what a test's towpath sees: the test's own environment without settings of Towpath.
func (p *project) environ() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TOWPATH_") && !strings.HasPrefix(kv, "XDG_") {
			env = append(env, kv)
		}
	}
	env = append(env, "TOWPATH_STATE_DIR="+p.state, "GOFLAGS=-buildvcs=false", "GOWORK=")
	return append(env, p.env...)
}

// result is how one run of the program ended.
type result struct {
	code   int
	stdout string
	stderr string
	took   time.Duration
}

func (p *project) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = p.dir
	cmd.Env = p.environ()
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// towpath runs the program to its end.
func (p *project) towpath(args ...string) result {
	p.t.Helper()
	return p.towpathIn("", args...)
}

func (p *project) towpathIn(stdin string, args ...string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := p.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("towpath %s: %v", strings.Join(args, " "), err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(start)}
}

// need skips the test if the machine lacks a program, and fails instead where everything must run.
func need(t *testing.T, what string, ok bool) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("TOWPATH_TEST_REQUIRE") == "all" {
		t.Fatalf("%s is missing, and TOWPATH_TEST_REQUIRE=all forbids to skip: scripts/test-deps installs it", what)
	}
	t.Skipf("%s is missing: scripts/test-deps says how to get it", what)
}

func found(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
