//go:build !unix

package process

import (
	"context"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// Executor is not to be had here.
type Executor struct{}

var _ executor.Executor = (*Executor)(nil)

// New refuses.
func New(Config) (*Executor, error) {
	return nil, towpath.Errorf(towpath.CodeConfig, "running commands needs Linux, macOS or another Unix; on Windows use WSL")
}

// Run implements executor.Executor. There is no Executor to call it on.
func (e *Executor) Run(context.Context, executor.Task) (executor.Result, error) {
	_, err := New(Config{})
	return executor.Result{}, err
}

// Close does nothing.
func (e *Executor) Close(context.Context) error { return nil }

// GuardMain does nothing.
func GuardMain([]string) int { return 0 }
