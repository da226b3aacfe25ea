package towpath

import "time"

// Estimate is what is known of how long an atom takes, from passing runs of all branches: at most 20 samples or 30 days.
type Estimate struct {
	Mean       time.Duration  `json:"mean,omitempty"` // exponentially weighted, alpha 0.3
	Dev        time.Duration  `json:"dev,omitempty"`  // mean absolute deviation, weighted likewise
	Passes     int            `json:"passes,omitempty"`
	NeverSplit bool           `json:"never_split,omitempty"` // it was found not to be splittable
	Tests      []TestEstimate `json:"tests,omitempty"`       // top-level test functions, only for atoms that may be worth splitting
}

// TestEstimate is the mean duration of one top-level test function of a Go package.
type TestEstimate struct {
	Name string        `json:"name"`
	Mean time.Duration `json:"mean"`
}

// Selection names an atom, and if Cases is not empty only those cases of it (values of Case.Select).
type Selection struct {
	Atom  string   `json:"atom"`
	Cases []string `json:"cases,omitempty"`
}

// Part is a share of one Go package's test functions. Run lists those that it runs. The rest part has Rest set and runs
// everything except Skip, so that the parts together are complete whatever the package holds.
type Part struct {
	Index int      `json:"index"` // from 0
	Of    int      `json:"of"`
	Rest  bool     `json:"rest,omitempty"`
	Run   []string `json:"run,omitempty"`
	Skip  []string `json:"skip,omitempty"`
}
