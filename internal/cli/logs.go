package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
)

func newLogs(c *command) *cobra.Command {
	var follow bool
	var attempt int
	var offset int64
	cmd := &cobra.Command{
		Use:   "logs [BUILD [ATOM]]",
		Short: "Print the logs of a build, or of one atom",
		Args:  cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.openReader(cmd.Context())
			if err != nil {
				return err
			}
			q := towpath.LogQuery{Attempt: attempt, Offset: offset}
			if len(args) == 2 {
				q.Atom = args[1]
			}
			return errors.Join(c.logs(cmd.Context(), r, args, q, follow), r.close())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the build has ended")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "only the attempt with this number")
	cmd.Flags().Int64Var(&offset, "offset", 0, "skip so many bytes of each log")
	return cmd
}

func (c *command) logs(ctx context.Context, r *reader, args []string, q towpath.LogQuery, follow bool) error {
	n, err := c.buildArg(ctx, r.client, args, r.project)
	if err != nil {
		return err
	}
	if q.Atom != "" {
		if err := c.checkAtom(ctx, r, n, q.Atom); err != nil {
			return err
		}
	}
	type stream struct {
		attempt, unit int
	}
	var last stream
	newline := true
	for piece, err := range r.client.Log(ctx, n, q, follow) {
		if errors.Is(err, errInterrupted) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.json {
			newJSONLines(c.out, false).print(object{
				"type": "log", "build": n, "attempt": piece.Attempt, "atom": piece.Atom,
				"offset": piece.Offset, "gap": piece.Gap, "text": strings.ToValidUTF8(string(piece.Data), "\ufffd"),
			})
			continue
		}
		if at := (stream{piece.Attempt, piece.Unit}); at != last && q.Atom == "" {
			if !newline {
				fmt.Fprintln(c.out)
			}
			name := piece.Atom
			if name == "" {
				name = "the attempt itself"
			}
			fmt.Fprintf(c.out, "%s\n", c.paint().bold(fmt.Sprintf("=== attempt %d: %s", piece.Attempt, oneLine(name, 200))))
			last = at
		}
		if piece.Gap > 0 {
			fmt.Fprintf(c.out, "\n… %d bytes were not kept (setting log_limit) …\n", piece.Gap)
		}
		if _, err := c.out.Write(piece.Data); err != nil {
			return nil // whoever read has gone
		}
		if len(piece.Data) > 0 {
			newline = piece.Data[len(piece.Data)-1] == '\n'
		}
	}
	return nil
}

func (c *command) checkAtom(ctx context.Context, r *reader, n towpath.BuildNumber, atom string) error {
	for a, err := range r.client.Atoms(ctx, n) {
		if err != nil {
			return err
		}
		if a.Name == atom {
			return nil
		}
	}
	return towpath.Errorf(towpath.CodeNotFound, "build %d has no atom %q: `towpath show %d` lists them", n, atom, n)
}
