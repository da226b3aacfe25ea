package plan

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/towpath/towpath"
)

// quarantine reads entries that are a pattern, or a mapping with a pattern and who will mend it by when.
func (r *reader) quarantine(v value) []towpath.Quarantine {
	var all []towpath.Quarantine
	first := make(map[string]string)
	for _, item := range r.items(v, "patterns") {
		if r.dangling(item) {
			continue
		}
		var q towpath.Quarantine
		if _, ok := r.resolve(item.node).(ast.MapNode); ok {
			q = r.entry(item)
		} else if s, ok := r.line(item); ok {
			q.Pattern = s
		}
		if before, ok := first[q.Pattern]; ok && q.Pattern != "" {
			r.fault(item.token(r), "%s has the same pattern as %s: %q", item.path, before, clip(q.Pattern))
			continue
		}
		first[q.Pattern] = item.path
		all = append(all, q)
	}
	return all
}

func (r *reader) entry(v value) towpath.Quarantine {
	var q towpath.Quarantine
	var named bool
	for _, f := range r.mapping(v, entryKeys) {
		switch f.name {
		case "pattern":
			named = true
			q.Pattern, _ = r.line(f.value)
		case "owner":
			q.Owner, _ = r.line(f.value)
		case "until":
			q.Until = r.until(f.value)
		}
	}
	if !named {
		r.fault(v.token(r), "%s has no pattern: name the atoms, or ATOM::CASE", v.path)
	}
	return q
}

// until reads a day, which counts to its end in UTC, or a moment.
func (r *reader) until(v value) time.Time {
	s, ok := r.line(v)
	if !ok {
		return time.Time{}
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil && day.Year() > 0 {
		return day.Add(24*time.Hour - time.Second)
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil && at.Year() > 0 {
		return at.UTC()
	}
	r.wrong(v, "a day such as 2030-12-31")
	return time.Time{}
}
