//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/towpath/towpath/internal/executor"
	"github.com/towpath/towpath/internal/executor/executortest"
	"github.com/towpath/towpath/internal/executor/process"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case process.GuardArg:
			os.Exit(process.GuardMain(os.Args[2:]))
		case "__parent":
			os.Exit(parentMain(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// parentMain is a program that runs one task whose output is its own, until it is killed. Its arguments are whether to go
// without a cgroup, "guard" or another word, and the task's shell text.
func parentMain(args []string) int {
	c := process.Config{WithoutCgroup: args[0] == "true"}
	if args[1] == "guard" {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		c.Guard = []string{self, process.GuardArg}
	}
	e, err := process.New(c)
	if err != nil {
		panic(err)
	}
	_, err = e.Run(context.Background(), executor.Task{
		ID: "of-a-parent", Argv: []string{"sh", "-c", args[2]}, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	fmt.Fprintln(os.Stderr, "the task ended", err)
	return 3
}

// guardArgv makes this test binary a guard.
func guardArgv(tb testing.TB) []string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{self, process.GuardArg}
}

// open returns an Executor that is closed at the end of the test.
func open(tb testing.TB, c process.Config) *process.Executor {
	tb.Helper()
	e, err := process.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 20*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// variants are the ways in which a tree is kept together.
var variants = map[string]process.Config{
	"with a cgroup where the host has one": {},
	"without a cgroup":                     {WithoutCgroup: true},
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Guard = guardArgv(t)
			executortest.Run(t, func(t *testing.T) executor.Executor { return open(t, c) }) //nolint:thelper // it fails as the test does
		})
	}
}
