package cli

import (
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newConfig(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, and where each comes from",
		Args:  atMost(0),
		RunE: func(*cobra.Command, []string) error {
			if c.json {
				j := newJSONLines(c.out, false)
				for _, s := range settingsTable {
					v := c.set[s.key]
					j.print(object{"type": "setting", "key": s.key, "value": v.text, "from": v.origin})
				}
				return nil
			}
			w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SETTING\tVALUE\tFROM\tMEANING")
			for _, s := range settingsTable {
				v := c.set[s.key]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.key, v.text, v.origin, s.usage)
			}
			return w.Flush()
		},
	}
}

func newVersion(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  atMost(0),
		RunE: func(*cobra.Command, []string) error {
			if c.json {
				newJSONLines(c.out, false).print(object{"type": "version", "version": Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
				return nil
			}
			fmt.Fprintf(c.out, "towpath %s (%s, %s/%s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
