package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/towpath/towpath"
)

// TAP reads the Test Anything Protocol, versions 12 to 14, and what Node writes as such. Feed it with Write, then call
// Close once. It is not for use from several goroutines at once; callbacks come from within Write and Close.
//
// Several documents in one stream, as several programs one after the other write them, are read as if they were one:
// a new one begins with a version line, with a second plan once the first is fulfilled, or with test 1 after the last.
type TAP struct {
	kase  func(towpath.Case)
	lines lines
	names Names
	res   TAPResult

	levels  []*tapLevel // by depth; [0] is the document
	pending *tapResult  // the last result, while its diagnostics may still come
	before  kept        // comments and other text since the last result
	yaml    *tapYAML    // the block that is being read
	plans   int
	node    bool // it has Node's diagnostics
	version bool
}

// TAPResult is what stands when the output is complete.
type TAPResult struct {
	Outcome  towpath.Outcome // passed, failed, or skipped (1..0, or each case was)
	Reason   string          // one line, "" only if it passed
	Planned  int             // tests in the top-level plan; -1: there was none
	Counts   towpath.Counts  // of the cases, as given to the callback
	BailOut  string          // the text after "Bail out!", or "Bail out!" itself if there is none
	Problems []string        // one line each: short plan, number twice, result after the plan's end; at most 20
	Results  int             // result lines at the top level
	Other    int             // lines that are no TAP
}

// tapLevel is the document or one open subtest.
type tapLevel struct {
	prefix  string // the names of the enclosing subtests and " > ", as far as they are known
	bare    bool   // nothing announced it: its name comes with its parent's result
	held    []towpath.Case
	plan    int // -1: none yet
	early   bool
	skipAll string
	last    int // number of the last result
	count   int
	most    int
	seen    map[int]bool
	twice   int    // the first number that came again
	failed  int    // cases and containers below that failed
	child   string // the next subtest's name, as announced
	named   bool
}

// tapResult is one result line with what followed it.
type tapResult struct {
	level    *tapLevel
	k        towpath.Case
	ok       bool
	todo     bool
	children bool
	failures int // among the children
	notes    kept
	before   string
	yaml     *tapYAML
}

const maxUnfinished = 1000 // unfinished cases that are given by name

// NewTAP returns a reader that calls kase with each case as soon as its diagnostics are complete, which is at the next
// result or at Close. Case.Name joins the names of enclosing subtests with " > "; Case.Select is empty. A todo and a skip
// are skipped. A subtest that Node calls a suite is no case, unless it failed though nothing in it did. Cases that were
// planned and never came are given by Close, unfinished.
func NewTAP(kase func(towpath.Case)) *TAP {
	t := &TAP{kase: kase, before: kept{max: 16 << 10}}
	t.lines = lines{max: maxLine, line: t.line, long: t.long}
	t.res.Planned = -1
	t.levels = []*tapLevel{newTAPLevel("")}
	return t
}

func newTAPLevel(prefix string) *tapLevel {
	return &tapLevel{prefix: prefix, plan: -1, seen: map[int]bool{}}
}

// Write takes the next bytes. It never fails.
func (t *TAP) Write(p []byte) (int, error) {
	t.lines.write(p)
	return len(p), nil
}

// Close says that the output is complete.
func (t *TAP) Close() TAPResult {
	t.lines.close()
	t.endDocument()
	t.decide()
	return t.res
}

func (t *TAP) long(piece []byte, first bool) {
	if first {
		t.res.Other++
	}
	t.note(string(piece))
}

func (t *TAP) line(raw []byte) {
	line := string(raw)
	if t.yaml != nil {
		if t.yaml.line(line) {
			if t.yaml.done {
				t.yaml = nil
			}
			return
		}
		t.yaml = nil
	}
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if strings.TrimSpace(text) == "" {
		return
	}
	if t.pending != nil && t.pending.yaml == nil && indent == t.depth(t.pending.level)*4+2 && strings.TrimRight(text, " \t") == "---" {
		t.yaml = newTAPYAML(indent)
		t.pending.yaml = t.yaml
		return
	}
	if indent%4 != 0 || indent/4 > len(t.levels) {
		t.other(text)
		return
	}
	depth := indent / 4
	switch l := parseTAPLine(text); l.kind {
	case tapTest:
		if level := t.enter(depth); level != nil {
			t.result(level, depth, l)
		}
	case tapPlan:
		if level := t.enter(depth); level != nil {
			t.plan(level, depth, l)
		}
	case tapSubtest:
		t.subtest(depth, l.text)
	case tapVersion:
		if depth == 0 && t.version {
			t.endDocument()
		}
		t.version = t.version || depth == 0
	case tapBail:
		if t.res.BailOut == "" {
			t.res.BailOut = l.text
		}
	case tapComment:
		t.note(l.text + "\n")
	case tapPragma:
	default:
		t.other(text)
	}
}

func (t *TAP) other(text string) {
	t.res.Other++
	t.note(text + "\n")
}

// note keeps text for the failed result before it, as Perl writes, or for the one after it, as Node does.
func (t *TAP) note(text string) {
	if r := t.pending; r != nil && !r.ok && r.yaml == nil {
		r.notes.add(text)
		return
	}
	t.before.add(text)
}

func (t *TAP) depth(level *tapLevel) int {
	for i, l := range t.levels {
		if l == level {
			return i
		}
	}
	return 0
}

// enter returns the level at depth, and opens it if it is one deeper than the deepest.
func (t *TAP) enter(depth int) *tapLevel {
	if depth < len(t.levels) {
		return t.levels[depth]
	}
	parent := t.levels[depth-1]
	level := newTAPLevel("")
	if parent.named {
		level.prefix = cleanName(parent.prefix+parent.child) + " > "
	}
	level.bare = !parent.named
	t.flush()
	t.levels = append(t.levels, level)
	return level
}

// subtest takes a "# Subtest: name", which stands before its subtest on its parent's level or, from older programs, on
// its own.
func (t *TAP) subtest(depth int, name string) {
	t.flush()
	if depth == len(t.levels) {
		parent := t.levels[depth-1]
		if !parent.named {
			parent.child, parent.named = name, true
			t.enter(depth)
			return
		}
		t.enter(depth)
	}
	for len(t.levels) > depth+1 {
		t.endLevel("")
	}
	t.levels[depth].child, t.levels[depth].named = name, true
}

func (t *TAP) plan(level *tapLevel, depth int, l tapLine) {
	t.flush()
	for len(t.levels) > depth+1 {
		t.endLevel("")
	}
	if level.plan >= 0 && depth == 0 && level.early && level.count >= level.plan {
		t.endDocument()
		level = t.levels[0]
	}
	if level.plan >= 0 {
		t.problem("%sa second plan, 1..%d after 1..%d", within(level), l.number, level.plan)
		return
	}
	level.plan, level.early = l.number, level.count == 0
	level.skipAll = l.text
}

func (t *TAP) result(level *tapLevel, depth int, l tapLine) {
	t.flush()
	r := &tapResult{ok: l.ok, todo: l.directive == "todo", notes: kept{max: maxDetail}}
	if len(t.levels) > depth+1 {
		for len(t.levels) > depth+2 {
			t.endLevel("")
		}
		r.children = true
		r.failures = t.endLevel(cleanName(l.text))
	}
	number := l.number
	if depth == 0 && level.plan >= 0 && !level.early && number == 1 {
		t.endDocument()
		level = t.levels[0]
	}
	if number < 0 {
		number = level.last + 1
	}
	level.last = number
	level.count++
	level.most = max(level.most, number)
	if level.plan >= 0 && !level.early {
		t.problem("%stest %d comes after the plan 1..%d that ended it", within(level), number, level.plan)
	}
	if level.seen[number] && level.twice == 0 {
		level.twice = number
	}
	level.seen[number] = true
	r.level = level
	r.k.Name = cmp.Or(cleanName(l.text), fmt.Sprintf("test %d", number))
	r.k.State = towpath.CaseFailed
	switch {
	case l.directive != "":
		r.k.State = towpath.CaseSkipped
		r.k.Message = oneLine(l.reason)
		if r.todo {
			r.k.Message = oneLine("todo: " + l.reason)
			if l.reason == "" {
				r.k.Message = "todo"
			}
		}
	case l.ok:
		r.k.State = towpath.CasePassed
	}
	r.ok = r.k.State != towpath.CaseFailed
	level.child, level.named = "", false
	r.before = t.before.String()
	t.before = kept{max: t.before.max}
	t.pending = r
	if depth == 0 {
		t.res.Results++
	}
}

// flush gives the pending result as a case, now that its diagnostics are complete.
func (t *TAP) flush() {
	r := t.pending
	if r == nil {
		return
	}
	t.pending, t.yaml = nil, nil
	suite := false
	if r.yaml != nil {
		suite = r.yaml.value("type") == "suite"
		r.k.Duration = r.yaml.duration()
		t.node = t.node || r.yaml.value("duration_ms") != ""
		r.k.File = r.yaml.file()
	}
	if r.k.State == towpath.CaseFailed {
		r.explain()
		r.level.failed++
	}
	if suite && (r.k.State != towpath.CaseFailed || r.failures > 0) {
		return
	}
	t.give(r.level, r.k)
}

// give hands a case of a level to the callback, or holds it until the level's name is known.
func (t *TAP) give(level *tapLevel, k towpath.Case) {
	depth := t.depth(level)
	if level.prefix != "" {
		k.Name = cleanName(level.prefix + k.Name)
	}
	for d := depth; d >= 1; d-- {
		if t.levels[d].bare {
			t.levels[d].held = append(t.levels[d].held, k)
			return
		}
	}
	k.Name = t.names.Unique(k.Name)
	t.res.Counts.AddCase(k.State)
	if t.kase != nil {
		t.kase(k)
	}
}

// endLevel closes the deepest level, a subtest, and returns how many failed in it. name is that of its parent's result.
func (t *TAP) endLevel(name string) int {
	t.flush()
	level := t.levels[len(t.levels)-1]
	t.unfinished(level)
	t.levels = t.levels[:len(t.levels)-1]
	parent := t.levels[len(t.levels)-1]
	if level.bare {
		// Indented lines that only look like results have no plan of their own.
		if level.plan < 0 {
			t.res.Other += level.count
			return 0
		}
		for _, k := range level.held {
			if name != "" {
				k.Name = name + " > " + k.Name
			}
			t.give(parent, k)
		}
	}
	parent.failed += level.failed
	parent.child, parent.named = "", false
	return level.failed
}

// endDocument closes what is open and begins anew.
func (t *TAP) endDocument() {
	for len(t.levels) > 1 {
		t.endLevel("")
	}
	t.flush()
	level := t.levels[0]
	if level.plan >= 0 {
		t.res.Planned = max(t.res.Planned, 0) + level.plan
		t.plans++
		t.unfinished(level)
		if level.skipAll != "" && t.res.Reason == "" {
			t.res.Reason = level.skipAll
		}
	} else if level.count > 0 {
		t.problem("there is no plan, so the output may be incomplete: %d results", level.count)
	}
	t.levels[0] = newTAPLevel("")
}
