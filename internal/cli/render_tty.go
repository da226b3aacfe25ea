package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/towpath/towpath"
)

// live keeps a block of lines at the bottom of a terminal: counts, time left, what runs and for how long. What people must
// read is printed above it and scrolls away as usual.
type live struct {
	tty   *os.File
	paint paint
	slots int
	drawn int // lines of the block that stand on the screen
}

// mostRunning is how many running atoms the block names.
const mostRunning = 8

func (l *live) wantsCases() bool { return false }

func (l *live) event(t *tracker, e towpath.NumberedEvent) {
	if b, ok := e.Event.Body.(towpath.BuildSubmitted); ok {
		l.above(fmt.Sprintf("build %d: job %s on %s\n", t.build, b.Job.Name, plural(l.slots, "slot")))
	}
}

func (l *live) result(*tracker, int, []towpath.CaseInfo) {}

func (l *live) trouble(t *tracker, x trouble) {
	l.above(l.paint.trouble(x, t.build))
	l.draw(t, t.lastEvent)
}

func (l *live) tick(t *tracker, now time.Time) {
	if t.finish == nil && !t.started.IsZero() {
		l.draw(t, now)
	}
}

func (l *live) finish(t *tracker, b towpath.BuildInfo, _ time.Time) {
	l.above(l.paint.summary(t, b, l.slots))
}

// above prints text where the block stood.
func (l *live) above(text string) {
	fmt.Fprint(l.tty, l.erase()+text)
	l.drawn = 0
}

func (l *live) erase() string {
	if l.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", l.drawn)
}

func (l *live) draw(t *tracker, now time.Time) {
	width, height, err := term.GetSize(int(l.tty.Fd()))
	if err != nil || width < 20 {
		width, height = 80, 24
	}
	lines := l.block(t, now, width)
	if len(lines) > height-1 {
		lines = lines[:max(1, height-1)]
	}
	var b strings.Builder
	b.WriteString(l.erase())
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	fmt.Fprint(l.tty, b.String())
	l.drawn = len(lines)
}

func (l *live) block(t *tracker, now time.Time, width int) []string {
	head := fmt.Sprintf("%s  ", short(now.Sub(t.started)))
	switch {
	case !t.listed:
		head += "listing"
	default:
		head += bar(t.counts.Finished(), t.counts.Total, 20) + fmt.Sprintf(" %d/%d", t.counts.Finished(), t.counts.Total)
	}
	if left, ok := t.left(now, l.slots); ok && t.listed && left >= time.Second {
		head += ", about " + short(left) + " left"
	}
	first := head + l.paint.badCounts(t.counts)
	if plain := head + paint(false).badCounts(t.counts); len([]rune(plain)) >= width {
		first = oneLine(plain, width-1) // a longer line would take two, and be drawn again and again
	}
	lines := []string{first}
	if t.waiting != "" {
		lines = append(lines, l.paint.yellow(oneLine("  waiting: "+t.waiting, width-1)))
	}
	running := t.running()
	for i, a := range running {
		if i == mostRunning {
			lines = append(lines, l.paint.dim(fmt.Sprintf("  … and %d more", len(running)-mostRunning)))
			break
		}
		since := short(now.Sub(a.since))
		lines = append(lines, "  "+oneLine(a.what, max(8, width-14))+l.paint.dim(" "+since))
	}
	return lines
}

// bar draws a share of a whole.
func bar(part, whole, width int) string {
	full := 0
	if whole > 0 {
		full = part * width / whole
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
