package towpath

import (
	"strings"
	"time"
)

// Quarantined says whether an entry that is in force at now covers an atom or, if kase is not empty, that case of it. An
// entry that matches an atom covers all its cases. One that matches ATOM::CASE covers that case only, not its atom.
func Quarantined(entries []Quarantine, atom, kase string, now time.Time) bool {
	for _, q := range entries {
		if !q.Until.IsZero() && now.After(q.Until) {
			continue
		}
		if q.matches(atom) || kase != "" && q.matches(atom+"::"+kase) {
			return true
		}
	}
	return false
}

// matches compares one full name with the pattern. A leading ./ means the same as none, on both sides.
func (q Quarantine) matches(name string) bool {
	pattern, name := strings.TrimPrefix(q.Pattern, "./"), strings.TrimPrefix(name, "./")
	if pattern == "" {
		return false
	}
	if pattern == "..." {
		return true
	}
	if top, ok := strings.CutSuffix(pattern, "/..."); ok {
		return matchStars(top, name) || matchStars(top+"/*", name)
	}
	return matchStars(pattern, name)
}

// matchStars matches name with a pattern in which * stands for any text, / included. It never goes back further than
// the last star, so that no pattern takes more than len(pattern)·len(name) steps.
func matchStars(pattern, name string) bool {
	p, n := 0, 0
	star, from := -1, 0 // the last star, and where in name what follows it was tried
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
