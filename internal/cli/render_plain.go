package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// plain prints lines as things happen: for logs of CI systems and for pipes.
type plain struct {
	out   io.Writer
	paint paint
	slots int
	said  time.Time // when the last line of progress was printed
}

// quiet is how long plain output waits before it says that work goes on.
const quiet = 15 * time.Second

func (p *plain) wantsCases() bool { return false }

func (p *plain) event(t *tracker, e towpath.NumberedEvent) {
	switch b := e.Event.Body.(type) {
	case towpath.BuildSubmitted:
		p.said = e.Event.At
		fmt.Fprintf(p.out, "build %d: job %s on %s\n", t.build, b.Job.Name, plural(p.slots, "slot"))
	case towpath.AtomsListed:
		fmt.Fprintf(p.out, "build %d: %s\n", t.build, plural(len(b.Atoms), "atom"))
	}
}

func (p *plain) result(*tracker, int, []towpath.CaseInfo) {}

func (p *plain) trouble(t *tracker, x trouble) {
	p.said = t.lastEvent
	fmt.Fprint(p.out, p.paint.trouble(x, t.build))
}

func (p *plain) tick(t *tracker, now time.Time) {
	if p.said.IsZero() || now.Sub(p.said) < quiet || t.finish != nil {
		return
	}
	p.said = now
	if t.waiting != "" {
		fmt.Fprintf(p.out, "build %d waits: %s\n", t.build, oneLine(t.waiting, 400))
		return
	}
	fmt.Fprintf(p.out, "build %d: %d of %d atoms%s", t.build, t.counts.Finished(), t.counts.Total, p.paint.badCounts(t.counts))
	if left, ok := t.left(now, p.slots); ok && left >= time.Second {
		fmt.Fprintf(p.out, ", about %s left", short(left))
	}
	if r := t.running(); len(r) > 0 {
		fmt.Fprintf(p.out, "; longest running: %s for %s", oneLine(r[0].what, 80), short(now.Sub(r[0].since)))
	} else {
		fmt.Fprint(p.out, "; nothing runs")
	}
	fmt.Fprintln(p.out)
}

func (p *plain) finish(t *tracker, b towpath.BuildInfo, _ time.Time) {
	fmt.Fprint(p.out, p.paint.summary(t, b, p.slots))
}

func (p paint) badCounts(c towpath.Counts) string {
	s := ""
	if c.Failed > 0 {
		s += ", " + p.red(fmt.Sprintf("%d failed", c.Failed))
	}
	if c.Lost > 0 {
		s += ", " + p.red(fmt.Sprintf("%d lost", c.Lost))
	}
	if c.Flaky > 0 {
		s += ", " + p.yellow(fmt.Sprintf("%d flaky", c.Flaky))
	}
	return s
}

// trouble is the text of what went wrong: its name, why, and once the output that tells more.
func (p paint) trouble(x trouble, n towpath.BuildNumber) string {
	var b strings.Builder
	color := p.red
	if x.state == string(towpath.AtomFlaky) || x.state == string(towpath.AtomQuarantined) {
		color = p.yellow
	}
	fmt.Fprintf(&b, "%s %s", color(strings.ToUpper(x.state)), p.bold(oneLine(x.name, 200)))
	if x.reason != "" {
		fmt.Fprintf(&b, ": %s", oneLine(x.reason, 400))
	}
	b.WriteString("\n")
	const most = 20
	for i, c := range x.cases {
		if i == most {
			fmt.Fprintf(&b, "    … and %d more: towpath show %d\n", len(x.cases)-most, n)
			break
		}
		fmt.Fprintf(&b, "  %s %s", color(string(c.State)), oneLine(c.Name, 200))
		message, detail := printable(c.Message), strings.TrimRight(printable(c.Detail), "\n \t")
		if message != "" && !strings.Contains(detail, message) {
			fmt.Fprintf(&b, ": %s", oneLine(message, 400))
		}
		b.WriteString("\n")
		if detail != "" {
			b.WriteString(indent(lastLines(detail, 40), "      ") + "\n")
		}
	}
	if out := strings.TrimRight(printable(x.output), "\n \t"); out != "" {
		if x.cut {
			fmt.Fprintf(&b, "%s\n", p.dim(fmt.Sprintf("    … the beginning: towpath logs %d", n)))
		}
		b.WriteString(indent(lastLines(out, 60), "    ") + "\n")
	}
	return b.String()
}

func lastLines(s string, most int) string {
	lines := strings.Split(s, "\n")
	if len(lines) <= most {
		return s
	}
	return fmt.Sprintf("… %d lines left out …\n", len(lines)-most) + strings.Join(lines[len(lines)-most:], "\n")
}

// summary is the end of every build's output. slots is 0 where it is not known on how many the build ran.
func (p paint) summary(t *tracker, b towpath.BuildInfo, slots int) string {
	var s strings.Builder
	state := string(b.State)
	switch b.State {
	case towpath.BuildPassed:
		state = p.green(state)
	case towpath.BuildFailed, towpath.BuildErrored, towpath.BuildCanceled:
		state = p.red(state)
	case towpath.BuildListing, towpath.BuildRunning:
	}
	fmt.Fprintf(&s, "\nbuild %d %s in %s", b.Number, p.bold(state), short(b.Finished.Sub(b.Started)))
	if b.Reason != "" {
		fmt.Fprintf(&s, ": %s", oneLine(b.Reason, 600))
	}
	s.WriteString("\n")
	if b.Atoms.Total > 0 {
		fmt.Fprintf(&s, "  %s\n", p.countsLine(b.Atoms, "atom"))
	}
	if b.Cases.Total > 0 {
		fmt.Fprintf(&s, "  %s\n", p.countsLine(b.Cases, "case"))
	}
	p.names(&s, t, towpath.AtomFailed, p.red)
	p.names(&s, t, towpath.AtomLost, p.red)
	p.names(&s, t, towpath.AtomFlaky, p.yellow)
	if b.LowerBound > 0 && b.State != towpath.BuildCanceled {
		took := b.Finished.Sub(b.Started)
		s.WriteString("  lower bound")
		if slots > 0 {
			s.WriteString(" on " + plural(slots, "slot"))
		}
		s.WriteString(": " + short(b.LowerBound))
		switch over := took - b.LowerBound; {
		case over > b.LowerBound: // what it took beside its atoms, as to list and compile them, outweighs them
			fmt.Fprintf(&s, ", this build took %s more", short(over))
		case over >= 0:
			fmt.Fprintf(&s, ", this build took %.0f %% more", float64(over)/float64(b.LowerBound)*100)
		}
		if b.Floor != "" {
			fmt.Fprintf(&s, "; the floor is %s: no more slots would make it shorter", oneLine(b.Floor, 200))
		}
		s.WriteString("\n")
	}
	if b.State == towpath.BuildFailed {
		fmt.Fprintf(&s, "  again only what failed: towpath retry --failed %d\n", b.Number)
	}
	return s.String()
}

// names lists the atoms that ended in one state.
func (p paint) names(s *strings.Builder, t *tracker, state towpath.AtomState, color func(string) string) {
	const most = 30
	n := 0
	for i := range t.atoms {
		if t.atoms[i].state != state {
			continue
		}
		if n++; n <= most {
			fmt.Fprintf(s, "  %s %s\n", color(string(state)), oneLine(t.atoms[i].name, 200))
		}
	}
	if n > most {
		fmt.Fprintf(s, "  … and %d more %s\n", n-most, state)
	}
}
