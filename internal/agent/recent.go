package agent

import "github.com/towpath/towpath"

// recentOffers is how many offers a session remembers. A repeated one follows the first closely: no more offers than slots
// and what is on its way lie between them.
const recentOffers = 8192

// recent remembers the latest offers, so that one which is delivered twice is started once.
type recent struct {
	known map[towpath.AttemptID]bool
	ring  []towpath.AttemptID
	next  int // in ring, once it is full
}

// add says whether id is new.
func (r *recent) add(id towpath.AttemptID) bool {
	if r.known[id] {
		return false
	}
	if r.known == nil {
		r.known = make(map[towpath.AttemptID]bool)
	}
	r.known[id] = true
	if len(r.ring) < recentOffers {
		r.ring = append(r.ring, id)
		return true
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % recentOffers
	return true
}
