package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/towpath/towpath"
)

type tapKind int

const (
	tapOther tapKind = iota
	tapTest
	tapPlan
	tapSubtest
	tapVersion
	tapBail
	tapComment
	tapPragma
)

// tapLine is one line, taken apart.
type tapLine struct {
	kind      tapKind
	ok        bool
	number    int    // of a test, -1 if it has none; of the tests of a plan
	text      string // the description, the comment, the reason of a plan or of a bail-out
	directive string // todo, skip
	reason    string
}

// parseTAPLine reads a line without its indentation.
func parseTAPLine(s string) tapLine {
	s = strings.TrimRight(s, " \t")
	if rest, ok := strings.CutPrefix(s, "#"); ok {
		rest = strings.TrimPrefix(rest, " ")
		if name, ok := strings.CutPrefix(rest, "Subtest: "); ok {
			return tapLine{kind: tapSubtest, text: cleanName(unescapeTAP(name))}
		}
		return tapLine{kind: tapComment, text: rest}
	}
	if rest, ok := strings.CutPrefix(s, "not ok"); ok && ends(rest) {
		return parseTAPResult(rest, false)
	}
	if rest, ok := strings.CutPrefix(s, "ok"); ok && ends(rest) {
		return parseTAPResult(rest, true)
	}
	if rest, ok := strings.CutPrefix(s, "1.."); ok {
		digits := leadingDigits(rest)
		n, err := strconv.Atoi(digits)
		after := strings.TrimSpace(rest[len(digits):])
		if err != nil || n > 1<<30 || after != "" && after[0] != '#' {
			return tapLine{}
		}
		return tapLine{kind: tapPlan, number: n, text: oneLine(strings.TrimLeft(after, "# "))}
	}
	if rest, ok := strings.CutPrefix(s, "TAP version "); ok {
		if rest != "" && leadingDigits(rest) == rest {
			return tapLine{kind: tapVersion}
		}
		return tapLine{}
	}
	if rest, ok := strings.CutPrefix(s, "Bail out!"); ok {
		if rest = oneLine(rest); rest == "" {
			rest = "Bail out!"
		}
		return tapLine{kind: tapBail, text: rest}
	}
	if rest, ok := strings.CutPrefix(s, "pragma "); ok && rest != "" && (rest[0] == '+' || rest[0] == '-') {
		return tapLine{kind: tapPragma}
	}
	return tapLine{}
}

// ends says whether a word ends before rest.
func ends(rest string) bool { return rest == "" || rest[0] == ' ' || rest[0] == '\t' }

func leadingDigits(s string) string {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i]
}

func parseTAPResult(rest string, ok bool) tapLine {
	l := tapLine{kind: tapTest, ok: ok, number: -1}
	rest = strings.TrimLeft(rest, " \t")
	if digits := leadingDigits(rest); digits != "" && len(digits) < 10 && ends(rest[len(digits):]) {
		l.number, _ = strconv.Atoi(digits) // at most nine digits
		rest = strings.TrimLeft(rest[len(digits):], " \t")
	}
	if after, dash := strings.CutPrefix(rest, "-"); dash && ends(after) {
		rest = strings.TrimLeft(after, " \t")
	}
	escaped := false
	for i := 0; i < len(rest); i++ {
		switch {
		case escaped:
			escaped = false
		case rest[i] == '\\':
			escaped = true
		case rest[i] == '#' && (i == 0 || rest[i-1] == ' ' || rest[i-1] == '\t'):
			if l.directive, l.reason = parseDirective(rest[i+1:]); l.directive != "" {
				l.text = unescapeTAP(strings.TrimRight(rest[:i], " \t"))
				return l
			}
		}
	}
	l.text = unescapeTAP(rest)
	return l
}

// parseDirective reads what follows a hash: TODO or SKIP (Skipped, skip:) in any case of letters, then the reason.
func parseDirective(s string) (directive, reason string) {
	s = strings.TrimLeft(s, " \t")
	if len(s) < 4 {
		return "", ""
	}
	word, rest := strings.ToLower(s[:4]), s[4:]
	if word == "skip" {
		for _, more := range []string{"ped", "Ped", "PED"} {
			rest = strings.TrimPrefix(rest, more)
		}
	}
	if word != "todo" && word != "skip" || rest != "" && rest[0] != ' ' && rest[0] != '\t' && rest[0] != ':' && rest[0] != '-' {
		return "", ""
	}
	return word, strings.TrimSpace(strings.TrimLeft(rest, ":- \t"))
}

func unescapeTAP(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\#`, `#`).Replace(s)
}

// explain fills in why a result failed.
func (r *tapResult) explain() {
	notes, message := strings.TrimRight(r.notes.String(), "\n"), ""
	if r.yaml != nil {
		message = r.yaml.value("error")
		if message == "" {
			message = r.yaml.value("message")
		}
	}
	// Node says of a file that could not be loaded only that it failed; the cause stands in the text before.
	if message == "" || message == "test failed" {
		if line := errorLine(r.before); line != "" {
			message = line
		}
	}
	if message == "" && notes != "" {
		message = strings.Join(strings.SplitN(notes, "\n", 6)[:min(5, 1+strings.Count(notes, "\n"))], " ")
	}
	if message == "" && r.failures > 0 {
		message = fmt.Sprintf("%d below it failed", r.failures)
	}
	r.k.Message = cmp.Or(oneLine(message), "not ok")
	var detail []string
	if r.before != "" && notes == "" {
		detail = append(detail, strings.TrimRight(r.before, "\n"))
	}
	if r.yaml != nil {
		detail = append(detail, r.yaml.detail())
	}
	if notes != "" {
		detail = append(detail, notes)
	}
	r.k.Detail = bound(strings.Join(detail, "\n"), maxDetail)
}

// errorLine finds the line in which a program says what went wrong, as "TypeError: x is no function".
func errorLine(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		word, _, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		word, _, _ = strings.Cut(word, " [") // Error [ERR_MODULE_NOT_FOUND]: …
		if !strings.ContainsAny(word, " \t/(") && (strings.HasSuffix(word, "Error") || strings.HasSuffix(word, "Exception")) {
			return line
		}
	}
	return ""
}

func within(level *tapLevel) string {
	if level.prefix == "" {
		return ""
	}
	return "in " + strings.TrimSuffix(level.prefix, " > ") + ": "
}

func (t *TAP) problem(format string, args ...any) {
	if len(t.res.Problems) < 20 {
		t.res.Problems = append(t.res.Problems, oneLine(fmt.Sprintf(format, args...)))
	}
}

// unfinished gives the tests of a level that its plan has and that never came.
func (t *TAP) unfinished(level *tapLevel) {
	if level.plan < 0 {
		return
	}
	if level.count != level.plan {
		t.problem("%splanned %d tests, %d reported", within(level), level.plan, level.count)
	}
	// Node counts anew in each file, and only the number of results says something.
	arrived := func(n int) bool { return level.seen[n] }
	missing := level.plan
	if t.node {
		arrived = func(n int) bool { return n <= level.count }
		missing = max(0, level.plan-level.count)
	} else {
		for n := range level.seen {
			if n >= 1 && n <= level.plan {
				missing--
			}
		}
		if level.twice != 0 {
			t.problem("%stest %d came twice", within(level), level.twice)
		}
		if level.most > level.plan {
			t.problem("%stest %d is beyond the plan 1..%d", within(level), level.most, level.plan)
		}
	}
	given := 0
	for n := 1; n <= level.plan && missing > 0; n++ {
		if arrived(n) {
			continue
		}
		k := towpath.Case{
			Name: fmt.Sprintf("test %d", n), State: towpath.CaseUnfinished,
			Message: fmt.Sprintf("planned (1..%d), and no result of it came", level.plan),
		}
		if given == maxUnfinished {
			k.Name = fmt.Sprintf("tests %d to %d (%d of them)", n, level.plan, missing)
			missing = 1
		}
		t.give(level, k)
		given++
		missing--
	}
}

// decide fills in Outcome and Reason.
func (t *TAP) decide() {
	r := &t.res
	why := r.Reason // of a plan that skips all
	r.Reason = ""
	var reasons []string
	if r.BailOut != "" {
		reasons = append(reasons, "bailed out: "+r.BailOut)
	}
	if r.Counts.Failed > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of %d failed", r.Counts.Failed, r.Counts.Total))
	}
	reasons = append(reasons, r.Problems[:min(3, len(r.Problems))]...)
	switch {
	case r.Results == 0 && t.plans == 0 && len(reasons) == 0:
		r.Outcome, r.Reason = towpath.OutcomeFailed, "there is no TAP in the output"
	case len(reasons) > 0 || r.Counts.Unfinished > 0:
		r.Outcome, r.Reason = towpath.OutcomeFailed, oneLine(strings.Join(reasons, "; "))
	case r.Counts.Total == r.Counts.Skipped:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, "nothing in it ran"
		if why != "" {
			r.Reason = why
		}
	default:
		r.Outcome = towpath.OutcomePassed
	}
}
