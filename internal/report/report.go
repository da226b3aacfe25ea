// Package report turns what test runners write into cases, and the cases of a build into files for people and other
// tools: go test -json, TAP and JUnit come in, JUnit and JSON go out. Every reader streams, keeps bounded memory however
// long a line or a file is, and never loses what it cannot read: that is counted and handed on. Readers doubt success
// rather than failure: a case that began and never ended, a short plan or a torn file never passes. The runners call the
// readers, the command line the writers. Nothing here opens a file, waits or reads a clock.
package report

import (
	"strconv"
)

// Limits of what is kept of one case's text.
const (
	maxDetail  = 64 << 10 // of a case that did not pass: half of it from the start, half from the end
	maxPassed  = 4 << 10  // of a case that passed
	maxMessage = 500      // of the one line that says why
	maxName    = 4 << 10
)

// Names makes case names unique within an atom: a name that comes again gets " #2", then " #3". The zero value is ready.
type Names struct {
	seen map[string]int
}

// Unique returns name, with a number if it was returned before.
func (n *Names) Unique(name string) string {
	if n.seen == nil {
		n.seen = map[string]int{}
	}
	count := n.seen[name] + 1
	n.seen[name] = count
	if count == 1 {
		return name
	}
	for {
		numbered := name + " #" + strconv.Itoa(count)
		if n.seen[numbered] == 0 {
			n.seen[name], n.seen[numbered] = count, 1
			return numbered
		}
		count++
	}
}
