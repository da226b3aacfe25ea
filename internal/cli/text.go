package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/towpath/towpath"
)

// paint colours text for a terminal, or leaves it as it is.
type paint bool

func (p paint) code(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) red(s string) string    { return p.code("31", s) }
func (p paint) green(s string) string  { return p.code("32", s) }
func (p paint) yellow(s string) string { return p.code("33", s) }
func (p paint) dim(s string) string    { return p.code("2", s) }
func (p paint) bold(s string) string   { return p.code("1", s) }

// terminal says whether output goes to a terminal, and returns it if so.
func (c *command) terminal() (*os.File, bool) {
	out := c.out
	if checked, ok := out.(*checkedWriter); ok {
		out = checked.w
	}
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || c.getenv("TERM") == "dumb" {
		return nil, false
	}
	return f, true
}

func (c *command) paint() paint {
	switch c.set.text("color") {
	case "always":
		return true
	case "never":
		return false
	}
	_, tty := c.terminal()
	return paint(tty && c.getenv("NO_COLOR") == "")
}

// short prints a duration for people, with no more digits than they want.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d m", int(d.Hours()), int(d.Minutes())%60)
}

// plural prints a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countsLine prints the columns that are not zero.
func (p paint) countsLine(c towpath.Counts, noun string) string {
	parts := []string{}
	add := func(n int, word string, color func(string) string) {
		if n > 0 {
			parts = append(parts, color(fmt.Sprintf("%d %s", n, word)))
		}
	}
	same := func(s string) string { return s }
	add(c.Passed, "passed", p.green)
	add(c.Failed, "failed", p.red)
	add(c.Unfinished, "unfinished", p.red)
	add(c.Lost, "lost", p.red)
	add(c.Flaky, "flaky", p.yellow)
	add(c.Quarantined, "quarantined", p.yellow)
	add(c.Skipped, "skipped", same)
	add(c.Canceled, "canceled", same)
	if len(parts) == 0 {
		return "no " + noun + "s"
	}
	return plural(c.Total, noun) + ": " + strings.Join(parts, ", ")
}

// escapes are the sequences with which programs colour and move what they print (ECMA-48 CSI and OSC).
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\\\)?`)

// printable makes text safe for a terminal: colours go, other control characters than tab and newline become visible.
func printable(s string) string {
	s = escapes.ReplaceAllString(strings.ReplaceAll(s, "\r\n", "\n"), "")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return '\ufffd'
	}, s)
}

// oneLine makes a name safe and short enough for one line of the given width.
func oneLine(s string, width int) string {
	s = strings.NewReplacer("\n", "⏎", "\t", " ").Replace(printable(s))
	if r := []rune(s); width > 1 && len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// indent puts a margin before each line.
func indent(s, margin string) string {
	return margin + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+margin)
}
