package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

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
		Args:  atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if offset < 0 || attempt < 0 {
				return towpath.Errorf(towpath.CodeUsage, "--offset is %d and --attempt %d: neither can be below 0", offset, attempt)
			}
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
	var last logName
	newline := true
	j, whole := newJSONLines(c.out, false), wholeRunes{}
	for piece, err := range r.client.Log(ctx, n, q, follow) {
		if follow && errors.Is(err, errInterrupted) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.json {
			for _, p := range whole.join(piece) {
				j.print(logObject(n, p))
			}
			continue
		}
		if at := (logName{piece.Attempt, piece.Unit}); at != last && q.Atom == "" {
			if !newline {
				fmt.Fprintln(c.out)
			}
			name := piece.Atom
			if name == "" {
				name = c.attemptKind(ctx, r, n, piece.Attempt)
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
	for _, p := range whole.rest() {
		j.print(logObject(n, p))
	}
	return nil
}

func logObject(n towpath.BuildNumber, p towpath.LogPiece) object {
	return object{
		"type": "log", "build": n, "attempt": p.Attempt, "atom": p.Atom,
		"offset": p.Offset, "gap": p.Gap, "text": string(p.Data),
	}
}

// attemptKind names an attempt by what it is for, as what it prints belongs to no atom.
func (c *command) attemptKind(ctx context.Context, r *reader, n towpath.BuildNumber, number int) string {
	for a, err := range r.client.Attempts(ctx, n) {
		if err == nil && a.Number == number {
			return map[towpath.AttemptKind]string{
				towpath.AttemptList: "listing the atoms", towpath.AttemptSetup: "setup", towpath.AttemptTeardown: "teardown",
				towpath.AttemptRun: "the command as a whole",
			}[a.Kind]
		}
	}
	return "the attempt itself"
}

// logName tells the logs of a build apart.
type logName struct {
	attempt, unit int
}

// wholeRunes holds back the beginning of a character that a piece of a log ends in, for the next piece of that log.
type wholeRunes map[logName]towpath.LogPiece

// join returns what can be printed now that p has come.
func (w wholeRunes) join(p towpath.LogPiece) (out []towpath.LogPiece) {
	name := logName{p.Attempt, p.Unit}
	if held, ok := w[name]; ok {
		delete(w, name)
		if p.Gap == 0 && held.Offset+int64(len(held.Data)) == p.Offset {
			p.Data, p.Offset, p.Gap = append(held.Data, p.Data...), held.Offset, held.Gap
		} else {
			out = append(out, held)
		}
	}
	at := len(p.Data) - 1
	for at > 0 && at > len(p.Data)-utf8.UTFMax && !utf8.RuneStart(p.Data[at]) {
		at--
	}
	if at < 0 || utf8.FullRune(p.Data[at:]) {
		return append(out, p)
	}
	held := p
	held.Data = slices.Clone(p.Data[at:])
	if at == 0 {
		w[name] = held
		return out
	}
	held.Offset, held.Gap = p.Offset+int64(at), 0
	w[name] = held
	p.Data = p.Data[:at]
	return append(out, p)
}

// rest returns what is still held back.
func (w wholeRunes) rest() []towpath.LogPiece {
	return slices.SortedFunc(maps.Values(w), func(a, b towpath.LogPiece) int {
		return cmp.Or(a.Attempt-b.Attempt, a.Unit-b.Unit)
	})
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
