package towpath

// Counts counts cases or atoms by their one column each.
type Counts struct {
	Total       int `json:"total"`
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	Flaky       int `json:"flaky"`
	Lost        int `json:"lost"`
	Skipped     int `json:"skipped"`
	Canceled    int `json:"canceled"`
	Quarantined int `json:"quarantined"`
	Unfinished  int `json:"unfinished"` // cases only
}

// AddAtom adds an atom to the column of its state; one without a result is in none. Total is left alone: it is known before
// the results are.
func (c *Counts) AddAtom(s AtomState) {
	switch s {
	case AtomPassed:
		c.Passed++
	case AtomFailed:
		c.Failed++
	case AtomFlaky:
		c.Flaky++
	case AtomLost:
		c.Lost++
	case AtomSkipped:
		c.Skipped++
	case AtomCanceled:
		c.Canceled++
	case AtomQuarantined:
		c.Quarantined++
	case AtomPending, AtomRunning:
	}
}

// AddCase adds a case to its column and to the total.
func (c *Counts) AddCase(s CaseState) {
	c.Total++
	switch s {
	case CasePassed:
		c.Passed++
	case CaseFailed:
		c.Failed++
	case CaseSkipped:
		c.Skipped++
	case CaseFlaky:
		c.Flaky++
	case CaseQuarantined:
		c.Quarantined++
	case CaseUnfinished:
		c.Unfinished++
	}
}

// Add adds all columns and the total of more.
func (c *Counts) Add(more Counts) {
	c.Total += more.Total
	c.Passed += more.Passed
	c.Failed += more.Failed
	c.Flaky += more.Flaky
	c.Lost += more.Lost
	c.Skipped += more.Skipped
	c.Canceled += more.Canceled
	c.Quarantined += more.Quarantined
	c.Unfinished += more.Unfinished
}

// Finished is how many atoms have their result.
func (c Counts) Finished() int {
	return c.Passed + c.Failed + c.Flaky + c.Lost + c.Skipped + c.Canceled + c.Quarantined
}
