package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// GoTest reads the output of go test -json (or of go tool test2json -p PACKAGE) as it comes. Feed it with Write, then call
// Close once. It is not for use from several goroutines at once; callbacks come from within Write and Close.
type GoTest struct {
	events   GoEvents
	lines    lines
	packages map[string]*goPackage // those without a result
	finished map[string]bool
	builds   map[string]*goBuild // what the compiler said, by import path
	sum      GoSummary
}

// GoEvents are the callbacks of GoTest. Each may be nil.
type GoEvents struct {
	// Started says that a package's test binary began, or that its build failed.
	Started func(pkg string)
	// Output brings text for people, freed of JSON. pkg is "" if it is not known whose it is, as for text that is no JSON
	// while several packages run. p is only valid during the call.
	Output func(pkg string, p []byte)
	// CaseStarted says that a test began. A test that goes on after a pause does not begin again.
	CaseStarted func(pkg, name string)
	// Case brings a finished case. Case.Name and Case.Select are the name as go reports it (TestA/b_c#01); a test that ran
	// several times (-count, -cpu) has Name with " #2" and the same Select. Cases without an end come from Close or with
	// their package's result, as failed (it was running) or unfinished (it was paused).
	Case func(pkg string, c towpath.Case)
	// Result brings a package's end, after all its cases, at the latest from Close. It comes once for each time that the
	// stream begins the package, which go test does once.
	Result func(p GoPackage)
}

// GoPackage is what became of one package.
type GoPackage struct {
	Name string
	// Outcome is passed, failed, or skipped (no test files, or nothing in it ran). It is failed whenever a case failed,
	// whatever the package said of itself.
	Outcome towpath.Outcome
	Reason  string        // one line, "" only if it passed
	Elapsed time.Duration // as go says
	Ended   bool          // a result event came. False: the output broke off
	Claim   string        // what that event said: pass, fail, skip; "" if none came

	Cached      bool   // go test gave a remembered result
	NoTestFiles bool   // "[no test files]"
	NoTests     bool   // its binary ran and no test, example or fuzz seed matched ("[no tests to run]")
	Silent      bool   // its binary ended without PASS or FAIL: it left before, or instead of, the tests
	Cut         bool   // its binary ran and ended without PASS or FAIL, so that tests of it may never have begun
	BuildFailed bool   // it, its tests or what it imports did not compile, or vet refused it
	Torn        bool   // an event of it was broken, so that it cannot have passed
	Panic       string // the line with which it crashed: "panic: unexpected call to os.Exit(0) during test"
	TimedOut    bool   // the crash is go test's own -timeout

	Counts towpath.Counts // of its cases
	// Failed has the Select of each case that failed, without parents of failed subtests. It is empty if running these
	// again could not stand for the package: after a crash, with unfinished cases, or if something else failed as well.
	Failed []string
}

// GoSummary is what Close knows of the whole stream.
type GoSummary struct {
	Packages int    // results given
	Raw      int    // lines that were no event: broken JSON, crash output, what other programs wrote
	Torn     int    // those of them that look like broken events
	FirstRaw string // the first of them, as one line
}

// goEvent is one line of test2json, and of go build -json, which go test -json mixes in.
type goEvent struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64
	ImportPath  string
	FailedBuild string
}

// goBuild is what the compiler said of one import path.
type goBuild struct {
	text  kept
	shown bool
}

// NewGoTest returns a reader that calls e.
func NewGoTest(e GoEvents) *GoTest {
	g := &GoTest{events: e, packages: map[string]*goPackage{}, finished: map[string]bool{}, builds: map[string]*goBuild{}}
	g.lines = lines{max: maxLine, line: g.line, long: g.long}
	return g
}

// Write takes the next bytes. It never fails.
func (g *GoTest) Write(p []byte) (int, error) {
	g.lines.write(p)
	return len(p), nil
}

// Close says that the output is complete: whatever has not ended by now gets its result.
func (g *GoTest) Close() GoSummary {
	g.lines.close()
	open := make([]*goPackage, 0, len(g.packages))
	for _, p := range g.packages {
		open = append(open, p)
	}
	slices.SortFunc(open, func(a, b *goPackage) int { return strings.Compare(a.res.Name, b.res.Name) })
	for _, p := range open {
		g.finish(p)
	}
	paths := make([]string, 0, len(g.builds))
	for path, b := range g.builds {
		if !b.shown {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		g.output("", g.builds[path].text.String())
	}
	g.builds = nil
	return g.sum
}

func (g *GoTest) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		g.output(g.only(), "\n")
		return
	}
	var e goEvent
	if line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
		g.raw(line)
		g.output(g.only(), string(line)+"\n")
		return
	}
	switch e.Action {
	case "build-output":
		b := g.builds[e.ImportPath]
		if b == nil {
			b = &goBuild{text: kept{max: maxDetail}}
			g.builds[e.ImportPath] = b
		}
		b.text.add(e.Output)
		return
	case "build-fail":
		return
	}
	if e.Package == "" {
		// test2json without -p names no package.
		if e.Output != "" {
			g.output("", e.Output)
		}
		if e.Test == "" && e.Action != "pass" && e.Action != "fail" && e.Action != "skip" && e.Action != "start" {
			return
		}
	}
	switch e.Action {
	case "start", "run", "pass", "fail", "skip":
	default:
		if g.finished[e.Package] { // a word after its end, of which no second result comes
			g.output(e.Package, e.Output)
			return
		}
	}
	p := g.pkg(e.Package)
	switch e.Action {
	case "start":
	case "run":
		p.run(e.Test)
	case "pause":
		p.pause(e.Test)
	case "cont":
		p.cont(e.Test)
	case "output":
		if e.Package != "" {
			g.output(e.Package, e.Output)
		}
		p.output(e.Test, e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			p.end(e.Test, e.Action, e.Elapsed)
			return
		}
		p.res.Ended, p.res.Claim, p.res.Elapsed = true, e.Action, seconds(e.Elapsed)
		if e.FailedBuild != "" {
			p.res.BuildFailed = true
			if b := g.builds[e.FailedBuild]; b != nil {
				b.shown = true
				text := b.text.String()
				p.build = buildLine(text)
				g.output(e.Package, text)
			}
		}
		g.finish(p)
	case "bench":
		p.benchEnd(e.Test)
	}
}

// pkg returns the open package of that name, and opens it if there is none.
func (g *GoTest) pkg(name string) *goPackage {
	p := g.packages[name]
	if p == nil {
		p = newGoPackage(name, g.events)
		g.packages[name] = p
		if g.events.Started != nil {
			g.events.Started(name)
		}
	}
	return p
}

func (g *GoTest) finish(p *goPackage) {
	delete(g.packages, p.res.Name)
	g.finished[p.res.Name] = true
	g.sum.Packages++
	p.finish()
	if g.events.Result != nil {
		g.events.Result(p.res)
	}
}

// only is the one open package, "" if there are none or several.
func (g *GoTest) only() string {
	if len(g.packages) == 1 {
		for name := range g.packages {
			return name
		}
	}
	return ""
}

func (g *GoTest) long(piece []byte, first bool) {
	if first {
		g.raw(piece[:min(len(piece), 4096)])
	}
	g.output(g.only(), string(piece))
}

// raw counts a line that is no event. One that once was an event took something with it that may have been a failure.
func (g *GoTest) raw(line []byte) {
	g.sum.Raw++
	if g.sum.FirstRaw == "" {
		g.sum.FirstRaw = oneLine(string(line[:min(len(line), 4096)]))
	}
	if json.Valid(line) {
		return
	}
	if !bytes.Contains(line, []byte(`{"Time":"`)) && !bytes.Contains(line, []byte(`{"Action":"`)) &&
		!bytes.Contains(line, []byte(`"Package":"`)) {
		return
	}
	g.sum.Torn++
	name := g.only()
	if _, rest, ok := bytes.Cut(line, []byte(`"Package":"`)); ok {
		if named, _, ok := bytes.Cut(rest, []byte(`"`)); ok && g.packages[string(named)] != nil {
			name = string(named)
		}
	}
	if p := g.packages[name]; p != nil {
		p.res.Torn = true
	}
}

func (g *GoTest) output(pkg, text string) {
	if g.events.Output != nil && text != "" {
		g.events.Output(pkg, []byte(text))
	}
}

// buildLine finds what a compiler complains of in its output: the first line that is no heading.
func buildLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return oneLine(line)
		}
	}
	return ""
}

func seconds(s float64) time.Duration {
	if !(s > 0) { // NaN as well
		return 0
	}
	if s > 1e9 {
		s = 1e9
	}
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
