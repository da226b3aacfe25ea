package agent

// slots says which slots of an agent are busy.
type slots []bool

// take occupies the n lowest free slots, or none.
func (s slots) take(n int) (held []int, ok bool) {
	for i, busy := range s {
		if !busy && len(held) < n {
			held = append(held, i)
		}
	}
	if len(held) < n {
		return nil, false
	}
	for _, i := range held {
		s[i] = true
	}
	return held, true
}

func (s slots) give(held []int) {
	for _, i := range held {
		s[i] = false
	}
}
