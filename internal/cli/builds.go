package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/client"
)

// buildArg reads the number of a build; without one it is the newest of this project.
func (c *command) buildArg(ctx context.Context, r *client.Client, args []string, project string) (towpath.BuildNumber, error) {
	if len(args) > 0 {
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || n < 1 {
			return 0, towpath.Errorf(towpath.CodeUsage, "%q is no build: a build is a number, `towpath ps` lists them", args[0])
		}
		return towpath.BuildNumber(n), nil
	}
	builds, err := r.Builds(ctx, towpath.BuildFilter{Project: project, Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(builds) == 0 {
		return 0, towpath.Errorf(towpath.CodeNotFound, "no build of %s is remembered: `towpath run` makes one, `towpath ps --all` lists those of other projects", project)
	}
	return builds[0].Number, nil
}

func newPs(c *command) *cobra.Command {
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List builds, newest first",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := c.openReader(cmd.Context())
			if err != nil {
				return err
			}
			builds, err := r.client.Builds(cmd.Context(), towpath.BuildFilter{Project: choose(all, "", r.project), Limit: limit})
			if err = errors.Join(err, r.close()); err != nil {
				return err
			}
			return c.printBuilds(builds)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "of all projects")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most so many")
	return cmd
}

func choose[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

func (c *command) printBuilds(builds []towpath.BuildInfo) error {
	if c.json {
		j := newJSONLines(c.out, false)
		for _, b := range builds {
			j.print(buildObject("build", b))
		}
		return nil
	}
	if len(builds) == 0 {
		fmt.Fprintln(c.out, "no builds")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BUILD\tSTATE\tJOB\tATOMS\tSTARTED\tTOOK\tREASON")
	for _, b := range builds {
		took := time.Since(b.Started)
		if !b.Finished.IsZero() {
			took = b.Finished.Sub(b.Started)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d/%d\t%s\t%s\t%s\n", b.Number, b.State, b.Job, b.Atoms.Finished(), b.Atoms.Total,
			b.Started.Local().Format("2006-01-02 15:04:05"), short(took), oneLine(b.Reason, 100))
	}
	return w.Flush()
}

func newShow(c *command) *cobra.Command {
	var atom, kase string
	cmd := &cobra.Command{
		Use:   "show [BUILD]",
		Short: "Show one build: its atoms and what failed; with --case, the history of a case",
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.openReader(cmd.Context())
			if err != nil {
				return err
			}
			return errors.Join(c.show(cmd.Context(), r, args, atom, kase), r.close())
		},
	}
	cmd.Flags().StringVar(&atom, "atom", "", "only this atom, with all its cases")
	cmd.Flags().StringVar(&kase, "case", "", "with --atom: the latest results of this case")
	return cmd
}

func (c *command) show(ctx context.Context, r *reader, args []string, atom, kase string) error {
	n, err := c.buildArg(ctx, r.client, args, r.project)
	if err != nil {
		return err
	}
	b, err := r.client.Build(ctx, n)
	if err != nil {
		return err
	}
	if kase != "" {
		if atom == "" {
			return towpath.Errorf(towpath.CodeUsage, "--case goes with --atom: the same name may stand in several atoms")
		}
		return c.showHistory(ctx, r.client, n, atom, kase)
	}
	t := newTracker(n)
	t.job.Name = b.Job
	var atoms []towpath.AtomInfo
	for a, err := range r.client.Atoms(ctx, n) {
		if err != nil {
			return err
		}
		if atom == "" || a.Name == atom {
			atoms = append(atoms, a)
		}
	}
	if atom != "" && len(atoms) == 0 {
		return towpath.Errorf(towpath.CodeNotFound, "build %d has no atom %q: `towpath show %d` lists them", n, atom, n)
	}
	if c.json {
		return c.showJSON(ctx, r.client, b, atoms, atom != "")
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, a := range atoms {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.State, oneLine(a.Name, 100), short(a.Duration), oneLine(a.Reason, 160))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	p := c.paint()
	for _, a := range atoms {
		if err := c.showCases(ctx, r.client, n, a, atom != ""); err != nil {
			return err
		}
	}
	if b.State.Final() {
		fmt.Fprint(c.out, p.summary(t, b, 0))
	} else {
		fmt.Fprintf(c.out, "\nbuild %d has been %s for %s\n", n, b.State, short(time.Since(b.Started)))
	}
	return nil
}

func (c *command) showJSON(ctx context.Context, r *client.Client, b towpath.BuildInfo, atoms []towpath.AtomInfo, cases bool) error {
	j := newJSONLines(c.out, cases)
	for _, a := range atoms {
		j.print(object{"type": "atom", "atom": a.Name, "state": a.State, "reason": a.Reason, "duration_s": a.Duration.Seconds(), "attempts": len(a.Attempts)})
		if !cases && !wentWrong(a.State) {
			continue
		}
		for k, err := range r.AtomCases(ctx, b.Number, a.Index) {
			if err != nil {
				return err
			}
			j.print(caseObject(k))
		}
	}
	j.print(buildObject("build", b))
	return nil
}

// wentWrong says whether an atom has cases that people look for first.
func wentWrong(s towpath.AtomState) bool {
	return s == towpath.AtomFailed || s == towpath.AtomFlaky || s == towpath.AtomLost || s == towpath.AtomQuarantined
}

// showCases prints the cases of an atom: all, or those that went wrong.
func (c *command) showCases(ctx context.Context, r *client.Client, n towpath.BuildNumber, a towpath.AtomInfo, all bool) error {
	if !all && !wentWrong(a.State) {
		return nil
	}
	x := trouble{name: a.Name, state: string(a.State), reason: a.Reason}
	for k, err := range r.AtomCases(ctx, n, a.Index) {
		if err != nil {
			return err
		}
		if all || k.State != towpath.CasePassed && k.State != towpath.CaseSkipped {
			x.cases = append(x.cases, k)
		}
	}
	if len(x.cases) > 0 {
		fmt.Fprint(c.out, "\n"+c.paint().trouble(x, n))
	}
	return nil
}

func (c *command) showHistory(ctx context.Context, r *client.Client, n towpath.BuildNumber, atom, kase string) error {
	j := newJSONLines(c.out, true)
	found := false
	for h, err := range r.History(ctx, n, atom, kase) {
		if err != nil {
			return err
		}
		found = true
		if c.json {
			o := object{"type": "history", "atom": atom, "name": kase, "build": h.Build, "time": h.At, "state": h.State, "duration_s": h.Duration.Seconds()}
			if h.Message != "" {
				o["message"] = h.Message
			}
			j.print(o)
			continue
		}
		fmt.Fprintf(c.out, "build %-6d %s  %-11s %8s  %s\n", h.Build, h.At.Local().Format("2006-01-02 15:04"), h.State, short(h.Duration), oneLine(h.Message, 100))
	}
	if !found {
		return towpath.Errorf(towpath.CodeNotFound, "no result of case %q of atom %q is remembered", kase, atom)
	}
	return nil
}
