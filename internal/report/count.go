package report

import "github.com/towpath/towpath"

// CountCases counts cases by their states.
func CountCases(cases []towpath.Case) towpath.Counts {
	var c towpath.Counts
	for i := range cases {
		c.AddCase(cases[i].State)
	}
	return c
}
