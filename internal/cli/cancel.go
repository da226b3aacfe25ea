package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
)

func newCancel(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel BUILD",
		Short: "End a running build: its processes are terminated, then killed",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return towpath.Errorf(towpath.CodeUsage, "cancel takes the number of one build: `towpath ps` lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.openReader(cmd.Context())
			if err != nil {
				return err
			}
			n, err := c.buildArg(cmd.Context(), r.client, args, r.project)
			if err == nil {
				err = r.client.Cancel(cmd.Context(), n, c.getenv("USER"))
			}
			if err = errors.Join(err, r.close()); err != nil {
				return err
			}
			if c.json {
				newJSONLines(c.out, false).print(object{"type": "canceled", "build": n})
				return nil
			}
			fmt.Fprintf(c.out, "build %d canceled\n", n)
			return nil
		},
	}
}
