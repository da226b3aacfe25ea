package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// outcomeOf says what r means for a command whose exit status is its outcome, and the reason if it did not pass.
func outcomeOf(r executor.Result, t executor.Task) (towpath.Outcome, string) {
	switch {
	case r.End == executor.EndCanceled:
		return towpath.OutcomeCanceled, "stopped"
	case r.End == executor.EndLimit, r.End == executor.EndSilence:
		return towpath.OutcomeTimedOut, reasonOf(r, t)
	case r.End == executor.EndExited && r.ExitCode == 0:
		return towpath.OutcomePassed, ""
	}
	return towpath.OutcomeFailed, reasonOf(r, t)
}

// stoppedBy is the outcome of what was ended from outside, "" for what ended by itself.
func stoppedBy(r executor.Result) towpath.Outcome {
	switch r.End {
	case executor.EndLimit, executor.EndSilence:
		return towpath.OutcomeTimedOut
	case executor.EndCanceled:
		return towpath.OutcomeCanceled
	case executor.EndExited, executor.EndMemory:
	}
	return ""
}

// reasonOf says in one line how a command ended.
func reasonOf(r executor.Result, t executor.Task) string {
	switch r.End {
	case executor.EndLimit:
		return fmt.Sprintf("timed out after %s (limit): %s", short(t.Limit), busy(r.Busy))
	case executor.EndSilence:
		return fmt.Sprintf("no output for %s: %s", short(t.Silence), busy(r.Busy))
	case executor.EndMemory:
		return "killed: out of memory"
	case executor.EndCanceled:
		return "stopped"
	case executor.EndExited:
	}
	if r.Signal != "" {
		return "killed by " + r.Signal
	}
	return fmt.Sprintf("exit status %d", r.ExitCode)
}

// busy tells a command that spins from one that waits. Below a twentieth of a CPU is what timers and collectors use; a
// command that spins has more than a fifth even beside many others.
func busy(cpus float64) string {
	switch {
	case cpus < 0.05:
		return "blocked, no CPU used"
	case cpus < 0.2:
		return fmt.Sprintf("mostly blocked, %.0f%% of a CPU used", 100*cpus)
	}
	return "burning CPU"
}

// short writes d as people do: 10m, not 10m0s.
func short(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(100 * time.Millisecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// leftovers is the line of the log that names processes which outlived their command.
func leftovers(ps []executor.Process) string {
	const most = 20
	var b strings.Builder
	noun := "processes"
	if len(ps) == 1 {
		noun = "process"
	}
	fmt.Fprintf(&b, "towpath: %d %s outlived the command and had to be killed:", len(ps), noun)
	for i, p := range ps {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(ps)-most)
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s (pid %d)", p.Command, p.PID)
	}
	b.WriteByte('\n')
	return b.String()
}

// lastLines keeps the end of what was printed, to say it beside an exit status.
type lastLines struct {
	limit int
	buf   []byte
}

func (l *lastLines) Write(p []byte) (int, error) {
	n := len(p)
	if n > l.limit {
		p = p[n-l.limit:]
	}
	l.buf = append(l.buf, p...)
	if over := len(l.buf) - l.limit; over > 0 {
		l.buf = append(l.buf[:0], l.buf[over:]...)
	}
	return n, nil
}

// appendTo gives reason with the last lines that say something, on one line.
func (l *lastLines) appendTo(reason string) string {
	lines := strings.FieldsFunc(string(l.buf), func(r rune) bool { return r == '\n' || r == '\r' })
	var said []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			said = append(said, line)
		}
	}
	const most = 3
	if len(said) > most {
		said = said[len(said)-most:]
	}
	if len(said) == 0 {
		return reason
	}
	return reason + ": " + strings.Join(said, " / ")
}
