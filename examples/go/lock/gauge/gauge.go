// Package gauge reads a water gauge.
package gauge

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a level such as "1.85 m".
func Parse(text string) (float64, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "m")
	if !ok {
		return 0, fmt.Errorf("level %q has no unit: write it as 1.85 m", text)
	}
	level, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return 0, fmt.Errorf("level %q is no number: %w", text, err)
	}
	return level, nil
}
