package runner

import (
	"regexp"
	"strings"

	"github.com/towpath/towpath"
)

// maxSelection bounds a -run pattern. What is longer is run whole.
const maxSelection = 32 << 10

// goPattern is a -run pattern for exactly the named tests and what lies below them. The go command takes a pattern apart
// at each slash and matches the parts one by one, anchored nowhere, so each is quoted and anchored by itself. It makes
// names unique (#01) before it matches, so they are stable. A name below another that is selected anyway is left out.
func goPattern(names []string) string {
	chosen := make(map[string]bool, len(names))
	for _, n := range names {
		chosen[n] = true
	}
	var patterns []string
	for _, n := range names {
		if !chosen[n] || coveredByParent(n, chosen) {
			continue
		}
		chosen[n] = false
		parts := strings.Split(n, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		patterns = append(patterns, strings.Join(parts, "/"))
	}
	return strings.Join(patterns, "|")
}

func coveredByParent(name string, chosen map[string]bool) bool {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		if _, ok := chosen[name[:i]]; ok {
			return true
		}
	}
	return false
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
	if p := goPattern(names); len(p) <= maxSelection {
		return p
	}
	return ""
}

// failedLeaves are the names of the failed tests that are worth selecting: a test whose subtest failed is left out, since
// selecting the subtest runs the test around it too.
func failedLeaves(failed []string) []string {
	around := make(map[string]bool)
	for _, n := range failed {
		for i := strings.IndexByte(n, '/'); i >= 0; {
			around[n[:i]] = true
			next := strings.IndexByte(n[i+1:], '/')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	var leaves []string
	for _, n := range failed {
		if !around[n] {
			leaves = append(leaves, n)
		}
	}
	return leaves
}
