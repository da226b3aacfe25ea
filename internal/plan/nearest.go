package plan

import "github.com/agext/levenshtein"

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	best, least := "", max(1, min(3, len(name)/2))+1
	for _, c := range candidates {
		if d := levenshtein.Distance(name, c, nil); d < least {
			best, least = c, d
		}
	}
	return best
}
