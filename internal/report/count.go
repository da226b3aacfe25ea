package report

import "github.com/towpath/towpath"

// Count adds one case in state s to its column and to the total.
func Count(c *towpath.Counts, s towpath.CaseState) {
	c.Total++
	switch s {
	case towpath.CasePassed:
		c.Passed++
	case towpath.CaseFailed:
		c.Failed++
	case towpath.CaseSkipped:
		c.Skipped++
	case towpath.CaseFlaky:
		c.Flaky++
	case towpath.CaseQuarantined:
		c.Quarantined++
	case towpath.CaseUnfinished:
		c.Unfinished++
	}
}

// CountCases counts cases by their states.
func CountCases(cases []towpath.Case) towpath.Counts {
	var c towpath.Counts
	for i := range cases {
		Count(&c, cases[i].State)
	}
	return c
}
