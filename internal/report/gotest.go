package report

import (
	"time"

	"github.com/towpath/towpath"
)

// GoTest reads the output of go test -json (or of go tool test2json -p PACKAGE) as it comes. Feed it with Write, then call
// Close once. It is not for use from several goroutines at once; callbacks come from within Write and Close.
type GoTest struct {
	events GoEvents
}

// GoEvents are the callbacks of GoTest. Each may be nil.
type GoEvents struct {
	// Started says that a package's test binary began, or that its build failed.
	Started func(pkg string)
	// Output brings text for people, freed of JSON. pkg is "" if it is not known whose it is, as for text that is no JSON
	// while several packages run. p is only valid during the call.
	Output func(pkg string, p []byte)
	// CaseStarted says that a test began (again, after a pause, it does not).
	CaseStarted func(pkg, name string)
	// Case brings a finished case. Case.Name and Case.Select are the name as go reports it (TestA/b_c#01); a test that ran
	// several times (-count, -cpu) has Name with " #2" and the same Select. Cases without an end come from Close or with
	// their package's result, as failed (it was running) or unfinished (it was paused).
	Case func(pkg string, c towpath.Case)
	// Result brings a package's end, after all its cases. It comes once a package, at the latest from Close.
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
	BuildFailed bool   // it, its tests or what it imports did not compile, or vet refused it
	Panic       string // the first line of a panic, fatal error or exit in the midst of a test: "panic: unexpected call to os.Exit(0) during test"
	TimedOut    bool   // the panic is go test's own -timeout

	Counts towpath.Counts // of its cases
	Failed []string       // Select of each case that failed, without parents that have a failed subtest
}

// GoSummary is what Close knows of the whole stream.
type GoSummary struct {
	Packages int    // results given
	Raw      int    // lines that were no event: broken JSON, crash output, what other programs wrote
	FirstRaw string // the first of them, one line
}

// NewGoTest returns a reader that calls e.
func NewGoTest(e GoEvents) *GoTest { return &GoTest{events: e} }

// Write takes the next bytes. It never fails.
func (g *GoTest) Write(p []byte) (int, error) { return len(p), nil }

// Close says that the output is complete: whatever has not ended by now gets its result.
func (g *GoTest) Close() GoSummary { return GoSummary{} }
