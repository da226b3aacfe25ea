package plan

import (
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// maxNumber bounds every count in the file, and maxDuration every time, so that sums of them cannot overflow.
const (
	maxNumber   = 1_000_000
	maxDuration = 365 * 24 * time.Hour
)

const aDuration = "a duration such as 90s, 10m or 1h"

// text reads a string. Numbers and booleans are no strings: YAML would turn 1.10 into 1.1 and no into false.
func (r *reader) text(v value) (string, bool) {
	var s string
	switch n := r.resolve(v.node).(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		raw := n.GetToken().Value
		r.fault(v.token(r), "%s must be text, not %s: write %q", v.path, clip(raw), clip(raw))
		return "", false
	case *ast.AliasNode:
		return "", false
	default:
		r.wrong(v, "text")
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		r.fault(v.token(r), "%s holds a zero byte: no command or file name can", v.path)
		return "", false
	}
	return s, true
}

// line reads a string that is not blank and has one line.
func (r *reader) line(v value) (string, bool) {
	s, ok := r.text(v)
	switch {
	case !ok:
		return "", false
	case strings.TrimSpace(s) == "":
		r.fault(v.token(r), "%s is empty", v.path)
		return "", false
	case strings.ContainsAny(s, "\n\r"):
		r.fault(v.token(r), "%s must be one line", v.path)
		return "", false
	}
	return s, true
}

func (r *reader) boolean(v value) bool {
	switch n := r.resolve(v.node).(type) {
	case *ast.BoolNode:
		return n.Value
	case *ast.AliasNode:
	default:
		r.wrong(v, "true or false")
	}
	return false
}

// number reads a whole number from least to maxNumber.
func (r *reader) number(v value, least int) int {
	switch n := r.resolve(v.node).(type) {
	case *ast.AliasNode:
		return least
	case *ast.IntegerNode:
		i, ok := whole(n)
		if !ok || i < least || i > maxNumber {
			r.fault(v.token(r), "%s must be from %d to %d, not %s", v.path, least, maxNumber, clip(n.GetToken().Value))
			return least
		}
		return i
	}
	r.wrong(v, "a whole number from "+strconv.Itoa(least))
	return least
}

func whole(n *ast.IntegerNode) (int, bool) {
	switch i := n.Value.(type) {
	case int64:
		return int(i), i >= -maxNumber-1 && i <= maxNumber+1
	case uint64:
		return int(min(i, maxNumber+1)), true
	}
	return 0, false
}

// duration reads a time greater than zero.
func (r *reader) duration(v value) time.Duration {
	switch n := r.resolve(v.node).(type) {
	case *ast.AliasNode:
		return 0
	case *ast.StringNode:
		d, err := time.ParseDuration(n.Value)
		if err == nil {
			return r.limit(v, d, n.Value)
		}
	case *ast.IntegerNode, *ast.FloatNode:
		raw := n.GetToken().Value
		r.fault(v.token(r), "%s must be %s, not %s: add a unit, as %ss", v.path, aDuration, clip(raw), clip(raw))
		return 0
	}
	r.wrong(v, aDuration)
	return 0
}

// limit holds a time against what can be waited for.
func (r *reader) limit(v value, d time.Duration, written string) time.Duration {
	switch {
	case d <= 0:
		r.fault(v.token(r), "%s must be longer than zero, not %s: every wait has a limit", v.path, clip(written))
	case d < time.Millisecond:
		r.fault(v.token(r), "%s must be at least 1ms, not %s", v.path, clip(written))
	case d > maxDuration:
		r.fault(v.token(r), "%s must be at most %dh, not %s", v.path, maxDuration/time.Hour, clip(written))
	default:
		return d
	}
	return 0
}

// items returns the elements of a list that is not empty.
func (r *reader) items(v value, of string) []value {
	if r.dangling(v) {
		return nil
	}
	list, ok := r.resolve(v.node).(*ast.SequenceNode)
	if !ok {
		r.wrong(v, "a list of "+of)
		return nil
	}
	if len(list.Values) == 0 {
		r.fault(v.token(r), "%s is an empty list", v.path)
	}
	items := make([]value, len(list.Values))
	for i, n := range list.Values {
		items[i] = value{v.path + "[" + strconv.Itoa(i) + "]", n, nil}
	}
	return items
}

// lines reads a list of lines, each of which check accepts and none of which comes twice.
func (r *reader) lines(v value, of string, check func(value, string) bool) []string {
	var all []string
	first := make(map[string]string)
	for _, item := range r.items(v, of) {
		s, ok := r.line(item)
		if !ok || !check(item, s) {
			continue
		}
		if before, ok := first[s]; ok {
			r.fault(item.token(r), "%s is the same as %s: %q", item.path, before, clip(s))
			continue
		}
		first[s] = item.path
		all = append(all, s)
	}
	return all
}

// short writes a duration without the zeros at its end: 10m and not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
