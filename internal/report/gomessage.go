package report

import (
	"regexp"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// isFrame says whether a line of a test's output is testing's own, which people need not read again.
func isFrame(text string) bool {
	return strings.HasPrefix(text, "=== ") && strings.HasSuffix(text, "\n") &&
		(strings.HasPrefix(text, "=== RUN ") || strings.HasPrefix(text, "=== PAUSE ") ||
			strings.HasPrefix(text, "=== CONT ") || strings.HasPrefix(text, "=== NAME ") || strings.HasPrefix(text, "=== ATTR ")) ||
		isStatus(text)
}

func isStatus(text string) bool {
	text = strings.TrimLeft(text, " ")
	return strings.HasPrefix(text, "--- PASS: ") || strings.HasPrefix(text, "--- FAIL: ") || strings.HasPrefix(text, "--- SKIP: ")
}

var (
	goPlace = regexp.MustCompile(`^\s*[^\s:]+\.go:\d+: ?`)
	goTook  = regexp.MustCompile(`--- (PASS|FAIL|SKIP): (.+) \(([0-9.]+)s\)\s*$`)
)

// goMessage finds the line of a test's output that says most about why it failed or was skipped: a crash, else the first
// line that t.Error and its kin wrote, else the first line at all.
func goMessage(text string) string {
	if line := crashLine(text); line != "" {
		return line
	}
	first := ""
	all := strings.SplitN(text, "\n", 4096)
	for i, line := range all {
		line = strings.TrimRight(line, "\r")
		place := goPlace.FindString(line)
		if place == "" {
			if first == "" && strings.TrimSpace(line) != "" && !isStatus(line) {
				first = line
			}
			continue
		}
		if strings.TrimSpace(line[len(place):]) == "" {
			return oneLine(line + " " + below(all[i+1:]))
		}
		return oneLine(line)
	}
	return oneLine(first)
}

// below finds the words of a message that begins on a new line, as assertion libraries write them.
func below(rest []string) string {
	first := ""
	for _, line := range rest[:min(len(rest), 30)] {
		line = strings.TrimSpace(line)
		if said, ok := strings.CutPrefix(line, "Error:"); ok {
			return strings.TrimSpace(said)
		}
		if first == "" {
			first = line
		}
	}
	return first
}

func crashLine(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return oneLine(line)
		}
	}
	return ""
}

// ownStatus looks for the status line of a test in its own output, where it stands if the text before it had no end and
// the binary was told to write for people. It counts only at the end of a line and for the very name.
func ownStatus(c *goCase) (towpath.CaseState, time.Duration, bool) {
	for line := range strings.Lines(c.out.String()) {
		m := goTook.FindStringSubmatch(line)
		if m == nil || m[2] != c.name {
			continue
		}
		took, err := time.ParseDuration(m[3] + "s")
		if err != nil {
			took = 0
		}
		switch m[1] {
		case "PASS":
			return towpath.CasePassed, took, true
		case "FAIL":
			return towpath.CaseFailed, took, true
		}
		return towpath.CaseSkipped, took, true
	}
	return "", 0, false
}

// firstLine is the first line of text that is not blank.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}
