package report

import (
	"regexp"
	"strings"
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

// goMessage finds the line of a test's output that says why it failed or was skipped: a crash, else the first line that
// t.Error and its kin wrote. Where there is neither, weak is the first line at all.
func goMessage(text string) (line, weak string) {
	if line := crashLine(text); line != "" {
		return line, ""
	}
	if strings.HasPrefix(text, "got:\n") { // of an example
		return oneLine(bound(text, maxMessage)), ""
	}
	first := ""
	all := strings.SplitN(text, "\n", 4096)
	for i, line := range all {
		line = strings.TrimRight(line, "\r")
		place := goPlace.FindString(line)
		if place == "" {
			if m := goTook.FindStringIndex(line); m != nil {
				line = line[:m[0]]
			}
			if first == "" && strings.TrimSpace(line) != "" {
				first = line
			}
			continue
		}
		if strings.TrimSpace(line[len(place):]) == "" {
			return oneLine(line + " " + below(all[i+1:])), ""
		}
		return oneLine(line), ""
	}
	return "", oneLine(first)
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

// statusOf returns the parts of line if it is the status line of that test: PASS, the name, seconds.
func statusOf(line, test string) []string {
	if m := goTook.FindStringSubmatch(line); m != nil && m[2] == test {
		return m
	}
	return nil
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
