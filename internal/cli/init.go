package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

func newInit(c *command) *cobra.Command {
	var stdout bool
	cmd := &cobra.Command{
		Use:   "init [KIND]",
		Short: "Write the towpath.yaml that recognition amounts to",
		Args:  atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := plan.Recognize(os.DirFS("."))
			if err != nil {
				return err
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			jobs := []towpath.Job{}
			if name == "" && len(found) > 1 {
				for _, f := range found { // all of them, each under the name of its kind
					job, err := plan.Choose(found, f.Kind)
					if err != nil {
						return err
					}
					jobs = append(jobs, job)
				}
			} else {
				job, err := plan.Choose(found, name)
				if err != nil {
					return err
				}
				jobs = append(jobs, job)
			}
			data, err := plan.Marshal(jobs...)
			if err != nil {
				return err
			}
			if stdout && c.json {
				return towpath.Errorf(towpath.CodeUsage, "--stdout prints the file itself, which is no JSON: leave --json out")
			}
			if stdout {
				_, err := c.out.Write(data)
				return err
			}
			f, err := os.OpenFile(plan.FileName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a source file like its neighbours
			if errors.Is(err, fs.ErrExist) {
				return towpath.Errorf(towpath.CodeConflict, "%s exists already and was left alone: `towpath init --stdout` prints what would be written", plan.FileName)
			}
			if err != nil {
				return towpath.Errorf(towpath.CodeConfig, "%s cannot be written: %w", plan.FileName, err)
			}
			_, werr := f.Write(data)
			if err := errors.Join(werr, f.Close()); err != nil {
				return towpath.Errorf(towpath.CodeUnavailable, "%s cannot be written: %w", plan.FileName, err)
			}
			if c.json {
				newJSONLines(c.out, false).print(object{"type": "written", "file": plan.FileName})
				return nil
			}
			fmt.Fprintf(c.out, "wrote %s\n", plan.FileName)
			return nil
		},
	}
	cmd.Flags().BoolVar(&stdout, "stdout", false, "print it instead")
	return cmd
}
