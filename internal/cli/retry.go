package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
)

func newRetry(c *command) *cobra.Command {
	var o runOptions
	var failed bool
	cmd := &cobra.Command{
		Use:   "retry [BUILD]",
		Short: "Run a build's job again; with --failed only what failed",
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.openReader(cmd.Context())
			if err != nil {
				return err
			}
			job, only, err := c.again(cmd.Context(), r, args, failed)
			if err = errors.Join(err, r.close()); err != nil {
				return err
			}
			return c.runJob(cmd.Context(), job, only, o)
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only atoms without a good result, and of those only the failed cases where the runner can select them")
	c.reportFlags(cmd, &o)
	return cmd
}

// again returns the job of a build and what of it is to run.
func (c *command) again(ctx context.Context, r *reader, args []string, failed bool) (towpath.Job, []towpath.Selection, error) {
	n, err := c.buildArg(ctx, r.client, args, r.project)
	if err != nil {
		return towpath.Job{}, nil, err
	}
	b, err := r.client.Build(ctx, n)
	if err != nil {
		return towpath.Job{}, nil, err
	}
	if b.Project != r.project {
		return towpath.Job{}, nil, towpath.Errorf(towpath.CodeUsage, "build %d is one of %s: retry it there", n, b.Project)
	}
	if !b.State.Final() {
		return towpath.Job{}, nil, towpath.Errorf(towpath.CodeConflict, "build %d is still %s: wait for its end, or cancel it first", n, b.State)
	}
	job, err := r.client.Job(ctx, n)
	if err != nil || !failed {
		return job, nil, err
	}
	var only []towpath.Selection
	for a, err := range r.client.Atoms(ctx, n) {
		if err != nil {
			return job, nil, err
		}
		switch a.State {
		case towpath.AtomFailed:
			cases, err := failedSelectors(ctx, r.client, n, a.Index)
			if err != nil {
				return job, nil, err
			}
			only = append(only, towpath.Selection{Atom: a.Name, Cases: cases})
		case towpath.AtomLost, towpath.AtomCanceled, towpath.AtomPending, towpath.AtomRunning:
			only = append(only, towpath.Selection{Atom: a.Name})
		case towpath.AtomSkipped:
			if a.Verdict == 0 { // left out by fail-fast, not skipped by its runner
				only = append(only, towpath.Selection{Atom: a.Name})
			}
		case towpath.AtomPassed, towpath.AtomFlaky, towpath.AtomQuarantined:
		}
	}
	if len(only) == 0 {
		if b.Atoms.Total == 0 {
			return job, nil, nil // its atoms were never listed: all of it is to be run
		}
		return job, nil, towpath.Errorf(towpath.CodeConflict, "nothing of build %d failed: it %s", n, b.State)
	}
	return job, only, nil
}

// failedSelectors returns how to select the failed cases of an atom, or nothing if one of them cannot be selected: then
// the whole atom runs.
func failedSelectors(ctx context.Context, r *client.Client, n towpath.BuildNumber, atom int) ([]string, error) {
	var out []string
	for k, err := range r.AtomCases(ctx, n, atom) {
		if err != nil {
			return nil, err
		}
		if k.State != towpath.CaseFailed && k.State != towpath.CaseUnfinished {
			continue
		}
		if k.Select == "" {
			return nil, nil
		}
		out = append(out, k.Select)
	}
	return out, nil
}
