package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// goPackage follows one package from its start to its result.
type goPackage struct {
	res     GoPackage
	events  GoEvents
	names   Names
	open    map[string]*goCase
	started int
	ended   map[string]string // the last result of each test that has ended
	parents map[string]bool   // tests with a failed subtest
	failed  []string
	benches []string // benchmarks that failed

	verdict string // PASS or FAIL, as the binary itself prints it last
	text    kept   // what no test printed
	pending string // its last line, without an end yet
	crash   kept   // from the last panic on
	crashed bool
	build   string // the compiler's first complaint
	exit    string // "exit status 2", "signal: killed"
}

// goCase is a test that has begun and not ended.
type goCase struct {
	name   string
	number int // in the order of beginning
	paused bool
	out    kept
	start  bool // the next output begins a line
	child  string
	status string // as its status line says: pass, fail, skip
	took   time.Duration
	held   []towpath.Case // failed subtests that did not say why: a panic may follow that does
}

func newGoPackage(name string, e GoEvents) *goPackage {
	return &goPackage{
		res: GoPackage{Name: name}, events: e,
		open: map[string]*goCase{}, ended: map[string]string{}, parents: map[string]bool{},
		text: kept{max: maxDetail}, crash: kept{max: maxDetail},
	}
}

func isBench(name string) bool { return strings.HasPrefix(name, "Benchmark") }

func (p *goPackage) run(name string) *goCase {
	if c := p.open[name]; c != nil || name == "" {
		return c
	}
	p.started++
	c := &goCase{name: name, number: p.started, out: kept{max: maxDetail}, start: true}
	p.open[name] = c
	delete(p.ended, name)
	if p.events.CaseStarted != nil && !isBench(name) {
		p.events.CaseStarted(p.res.Name, name)
	}
	return c
}

func (p *goPackage) pause(name string) {
	if c := p.open[name]; c != nil {
		c.paused = true
	}
}

func (p *goPackage) cont(name string) {
	if c := p.open[name]; c != nil {
		c.paused = false
	}
}

func (p *goPackage) output(test, text string) {
	p.watchCrash(text)
	p.watchStatus(text)
	if test == "" {
		p.ownOutput(text)
		return
	}
	c := p.open[test]
	if c == nil {
		if _, ended := p.ended[test]; ended {
			p.text.add(text)
			return
		}
		c = p.run(test) // its beginning was lost
	}
	if c.start && isFrame(text) || isStatus(text) && statusOf(text, test) != nil {
		return
	}
	if text == "PASS\n" || text == "FAIL\n" { // the binary's own last line, behind a test whose end was not recognised
		p.verdict = text[:4]
	}
	c.start = strings.HasSuffix(text, "\n")
	c.out.add(text)
}

// watchCrash keeps the text from the last line on that begins as a crash does.
func (p *goPackage) watchCrash(text string) {
	if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") ||
		strings.HasPrefix(text, "SIG") && strings.Contains(text, ": ") {
		p.crash = kept{max: maxDetail}
		p.crashed = true
		p.verdict = ""
	}
	if p.crashed {
		p.crash.add(text)
	}
}

// watchStatus remembers the status line of an open test, which stands in somebody's output if the text before it had no
// end and the binary was told to write for people. It counts only if no event says better.
func (p *goPackage) watchStatus(text string) {
	if !strings.Contains(text, "--- ") {
		return
	}
	for line := range strings.Lines(text) {
		m := goTook.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c := p.open[m[2]]
		if _, ended := p.ended[m[2]]; c == nil && !ended && m[1] == "FAIL" && p.openParent(m[2]) != nil {
			c = p.run(m[2]) // its beginning stands behind a text without an end
		}
		if c != nil && c.status != "fail" {
			c.status = strings.ToLower(m[1])
			c.took, _ = time.ParseDuration(m[3] + "s") // digits and dots; if it is none after all: 0
		}
	}
}

// ownOutput reads what the binary and go test themselves say of the package.
func (p *goPackage) ownOutput(text string) {
	p.text.add(text)
	if text == "PASS\n" || text == "FAIL\n" { // a test may have left its own last line without an end
		p.verdict, p.pending = text[:4], ""
		return
	}
	for piece := range strings.SplitAfterSeq(text, "\n") {
		if len(p.pending) < 8<<10 {
			p.pending += piece
		}
		if !strings.HasSuffix(piece, "\n") {
			return
		}
		line := strings.TrimRight(p.pending, "\r\n")
		p.pending = ""
		fields := strings.Split(line, "\t")
		of := len(fields) > 1 && (fields[1] == p.res.Name || strings.HasPrefix(fields[1], p.res.Name+" "))
		switch {
		case line == "PASS" || line == "FAIL":
			p.verdict = line
		case strings.HasPrefix(line, "exit status ") || strings.HasPrefix(line, "signal: "):
			p.exit = oneLine(line)
		case of && fields[0] == "ok  ":
			p.res.Cached = slices.Contains(fields, "(cached)")
			p.res.NoTests = strings.HasSuffix(line, "[no tests to run]")
		case of && fields[0] == "?   " && strings.HasSuffix(line, "[no test files]"):
			p.res.NoTestFiles = true
		case of && fields[0] == "FAIL" && (strings.HasSuffix(line, "[build failed]") || strings.HasSuffix(line, "[setup failed]")):
			p.res.BuildFailed = true
		}
	}
}

func (p *goPackage) benchEnd(name string) {
	delete(p.open, name)
	p.ended[name] = "pass"
}

// end gives a test its result.
func (p *goPackage) end(name, action string, elapsed float64) {
	c := p.open[name]
	if c == nil {
		// A second result of the same run, as from two verbose flags: only a failure says something new.
		if last, ended := p.ended[name]; ended && (action != "fail" || last == "fail") {
			return
		}
		c = p.run(name)
	}
	k := towpath.Case{Name: name, Select: name, Duration: seconds(elapsed)}
	switch action {
	case "pass":
		k.State = towpath.CasePassed
	case "skip":
		k.State = towpath.CaseSkipped
	default:
		k.State = towpath.CaseFailed
	}
	p.settle(c, k)
}

// settle closes c with the result k, whose texts it fills in if they are empty.
func (p *goPackage) settle(c *goCase, k towpath.Case) {
	delete(p.open, c.name)
	p.ended[c.name] = map[towpath.CaseState]string{towpath.CasePassed: "pass", towpath.CaseSkipped: "skip"}[k.State]
	failed := k.State == towpath.CaseFailed
	if failed {
		p.ended[c.name] = "fail"
	}
	if isBench(c.name) {
		if failed {
			p.benches = append(p.benches, c.name)
		}
		return
	}
	text := c.out.String()
	weak := ""
	if k.Message == "" && k.State != towpath.CasePassed {
		k.Message, weak = goMessage(text)
	}
	if k.State == towpath.CasePassed {
		k.Detail = c.out.within(maxPassed)
	} else {
		k.Detail = text
	}
	for _, held := range c.held {
		if held.Message == "" {
			held.Message = crashLine(text)
		}
		p.give(held)
	}
	parent := p.openParent(c.name)
	if k.Message == "" && failed && c.child != "" {
		k.Message = oneLine(c.child + " failed")
	}
	k.Message = cmp.Or(k.Message, weak)
	if !failed {
		p.give(k)
		return
	}
	if parent != nil {
		p.parents[parent.name] = true
		if parent.child == "" {
			parent.child = c.name
		}
	}
	if k.Message == "" && parent != nil {
		parent.held = append(parent.held, k)
		return
	}
	p.give(k)
}

func (p *goPackage) give(k towpath.Case) {
	k.Name = p.names.Unique(k.Name)
	if k.State == towpath.CaseFailed {
		if k.Message == "" {
			k.Message = "failed without a message"
		}
		p.failed = append(p.failed, k.Select)
	}
	p.res.Counts.AddCase(k.State)
	if p.events.Case != nil {
		p.events.Case(p.res.Name, k)
	}
}

// finish settles what is open and decides the outcome.
func (p *goPackage) finish() {
	r := &p.res
	abnormal := !r.Ended || r.Claim == "fail" && p.verdict == "" && !r.BuildFailed
	if abnormal && p.crashed {
		r.Panic = oneLine(firstLine(p.crash.String()))
		r.TimedOut = strings.HasPrefix(r.Panic, "panic: test timed out after ")
	}
	p.settleOpen(abnormal)
	r.Cut = r.Ended && p.verdict == "" && !r.BuildFailed && !r.NoTestFiles && r.Claim != "skip"
	r.Silent = r.Claim == "pass" && p.verdict == "" && r.Counts.Total == 0 && !r.Cached && !r.NoTests
	seen := map[string]bool{}
	for _, name := range p.failed {
		if !p.parents[name] && !seen[name] {
			seen[name] = true
			r.Failed = append(r.Failed, name)
		}
	}
	p.decide()
	if abnormal || r.Torn || r.Counts.Unfinished > 0 || len(p.benches) > 0 {
		r.Failed = nil
	}
}

// settleOpen gives results to tests that began and never ended.
func (p *goPackage) settleOpen(abnormal bool) {
	left := make([]*goCase, 0, len(p.open))
	for _, c := range p.open {
		left = append(left, c)
	}
	// As the top-level tests began, and within each its subtests before their parents.
	top := func(c *goCase) int {
		if above := p.open[topName(c.name)]; above != nil {
			return above.number
		}
		return c.number
	}
	slices.SortFunc(left, func(a, b *goCase) int {
		return cmp.Or(cmp.Compare(top(a), top(b)), cmp.Compare(b.number, a.number))
	})
	culprit := ""
	if abnormal && !p.res.TimedOut {
		culprit = p.culprit(left)
	}
	for _, c := range left {
		k := towpath.Case{Name: c.name, Select: c.name}
		if c.status != "" {
			p.end(c.name, c.status, c.took.Seconds())
			continue
		}
		running := abnormal && !c.paused && (culprit == "" || topName(c.name) == culprit)
		switch {
		case running || p.parents[c.name]:
			k.State = towpath.CaseFailed
			k.Message = p.res.Panic
			if k.Message == "" && p.exit != "" {
				k.Message = "running when the tests ended: " + p.exit
			}
			if k.Message == "" {
				k.Message = "running when the tests ended"
			}
		case c.paused:
			k.State, k.Message = towpath.CaseUnfinished, "paused when the tests ended"
		default:
			k.State, k.Message = towpath.CaseUnfinished, "began, and no result of it came"
		}
		p.settle(c, k)
	}
}

var goFrame = regexp.MustCompile(`\.((?:Test|Fuzz|Example|Benchmark)\w*)[.(]`)

// culprit names the running top-level test that a crash's first stacks mention, if several run and one is mentioned.
func (p *goPackage) culprit(left []*goCase) string {
	tops := map[string]bool{}
	for _, c := range left {
		if !c.paused {
			tops[topName(c.name)] = true
		}
	}
	if len(tops) < 2 || !p.crashed {
		return ""
	}
	for _, m := range goFrame.FindAllStringSubmatch(p.crash.String(), -1) {
		if tops[m[1]] {
			return m[1]
		}
	}
	return ""
}

// decide fills in Outcome and Reason.
func (p *goPackage) decide() {
	r := &p.res
	bad := r.Counts.Failed + r.Counts.Unfinished
	fail := func(format string, args ...any) {
		r.Outcome, r.Reason = towpath.OutcomeFailed, oneLine(fmt.Sprintf(format, args...))
	}
	switch {
	case r.BuildFailed && p.build != "":
		fail("build failed: %s", p.build)
	case r.BuildFailed:
		fail("build failed")
	case r.Panic != "":
		fail("%s", r.Panic)
	case !r.Ended && r.Counts.Total == 0:
		fail("the output ended before its result")
	case r.Counts.Failed > 0 && r.Claim == "pass":
		fail("%s, though the package says it passed", p.failure())
	case r.Counts.Failed > 0:
		fail("%s", p.failure())
	case bad > 0 && r.Ended:
		fail("%d of %d tests began and have no result", bad, r.Counts.Total)
	case !r.Ended:
		fail("the output ended before its result")
	case r.Torn:
		fail("an event of it is broken: what it said is not known")
	case r.Claim == "fail":
		fail("%s", p.complaint())
	case r.NoTestFiles:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, "no test files"
	case r.Silent && strings.TrimSpace(p.said()) == "":
		fail("the test binary exited 0 without running a test and without a word")
	case r.Silent:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, oneLine("the test binary exited 0 without running a test: "+firstLine(p.said()))
	case r.NoTests && r.Counts.Total == 0:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, "no tests to run"
	case r.Claim == "skip" && r.Counts.Total == 0:
		r.Outcome, r.Reason = towpath.OutcomeSkipped, "skipped"
	default:
		r.Outcome = towpath.OutcomePassed
	}
}

// failure names what failed: all of it if that is short.
func (p *goPackage) failure() string {
	names := p.res.Failed
	more := ""
	if len(names) > 3 {
		more = fmt.Sprintf(" and %d more", len(names)-3)
		names = names[:3]
	}
	return strings.Join(names, ", ") + more + " failed"
}

// complaint says why a package failed of which no test did.
func (p *goPackage) complaint() string {
	if len(p.benches) > 0 {
		return p.benches[0] + " failed"
	}
	said := firstLine(p.said())
	switch {
	case p.exit != "" && said != "":
		return p.exit + ": " + said
	case p.exit != "":
		return p.exit
	case said != "":
		return said
	}
	return "the package failed, though no test of it did"
}

// said is what the binary printed outside any test, without what go test adds.
func (p *goPackage) said() string {
	var b strings.Builder
	for line := range strings.Lines(p.text.String()) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "PASS" || trimmed == "FAIL" || strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") ||
			strings.HasPrefix(line, "coverage: ") || strings.HasPrefix(line, "exit status ") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// openParent finds the test that name is a subtest of. The name given to a subtest may itself hold slashes.
func (p *goPackage) openParent(name string) *goCase {
	for range 16 {
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
		if c := p.open[name]; c != nil {
			return c
		}
	}
	return p.open[topName(name)]
}

func topName(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}
