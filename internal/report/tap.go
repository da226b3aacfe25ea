package report

import "github.com/towpath/towpath"

// TAP reads the Test Anything Protocol, versions 12 to 14, and what Node writes as such. Feed it with Write, then call
// Close once. It is not for use from several goroutines at once; callbacks come from within Write and Close.
type TAP struct {
	kase func(towpath.Case)
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

// NewTAP returns a reader that calls kase with each case as soon as its diagnostics are complete, which is at the next
// result or at Close. Case.Name joins the names of enclosing subtests with " > "; Case.Select is empty. Cases that were
// planned and never came are given by Close, unfinished.
func NewTAP(kase func(towpath.Case)) *TAP { return &TAP{kase: kase} }

// Write takes the next bytes. It never fails.
func (t *TAP) Write(p []byte) (int, error) { return len(p), nil }

// Close says that the output is complete.
func (t *TAP) Close() TAPResult { return TAPResult{} }
