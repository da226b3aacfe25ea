package runner

import (
	"regexp"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// maxSelection bounds a -run pattern. What is longer is run whole.
const maxSelection = 32 << 10

// goPattern is a -run pattern for exactly the named tests and what lies below them. The go command takes a pattern apart
// at each slash and matches the parts one by one, anchored nowhere, so each is quoted and anchored by itself. It makes
// names unique (#01) before it matches, so they are stable.
func goPattern(names []string) string {
	patterns := make([]string, len(names))
	for k, n := range names {
		parts := strings.Split(n, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		patterns[k] = strings.Join(parts, "/")
	}
	slices.Sort(patterns)
	return strings.Join(slices.Compact(patterns), "|")
}

// goSelection is the pattern for the units' cases, or "" if the units are to be run whole.
func goSelection(units []towpath.OfferedUnit) string {
	var names []string
	for _, u := range units {
		if len(u.Cases) == 0 {
			return ""
		}
		names = append(names, u.Cases...)
	}
	if p := goPattern(leaves(names)); len(p) <= maxSelection {
		return p
	}
	return ""
}

// leaves are the names without those of tests around others of them: to run a subtest is to run the test around it, but
// not its other subtests.
func leaves(names []string) []string {
	around := make(map[string]bool)
	for _, n := range names {
		for i := strings.IndexByte(n, '/'); i >= 0; {
			around[n[:i]] = true
			next := strings.IndexByte(n[i+1:], '/')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	var inner []string
	for _, n := range names {
		if !around[n] {
			inner = append(inner, n)
		}
	}
	return inner
}
