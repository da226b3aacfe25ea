//go:build unix

package process_test

import (
	"context"
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

// guardArgv makes this test binary a guard.
func guardArgv(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, process.GuardArg}
}

// open returns an Executor that is closed at the end of the test.
func open(t testing.TB, c process.Config) *process.Executor {
	t.Helper()
	e, err := process.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
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
			executortest.Run(t, func(t *testing.T) executor.Executor { return open(t, c) })
		})
	}
}
