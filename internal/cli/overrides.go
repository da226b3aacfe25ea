package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

// override applies what the command line says of a job, and returns the job and what of it is to run: nothing for all.
func (o runOptions) override(cmd *cobra.Command, job towpath.Job) (towpath.Job, []towpath.Selection, error) {
	if cmd.Flags().Changed("retries") {
		if o.retries < 0 {
			return job, nil, towpath.Errorf(towpath.CodeUsage, "--retries is %d: give 0 or more", o.retries)
		}
		job.Retries.Failed = o.retries
	}
	if cmd.Flags().Changed("batch") {
		if o.batch < 1 {
			return job, nil, towpath.Errorf(towpath.CodeUsage, "--batch is %d: give at least 1, or leave it out to let Towpath choose", o.batch)
		}
		job = plan.WithBatch(job, towpath.Batch{Count: o.batch})
	}
	job.FailFast = job.FailFast || o.failFast
	only, err := plan.Only(os.DirFS("."), job, o.only)
	return job, only, err
}
