package runner

import (
	"context"
	_ "embed" // the reporter
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/towpath/towpath"
)

//go:embed vitest_reporter.mjs
var vitestReporter []byte

var vitestEvents = eventRunner{
	name:      "vitest",
	separator: " > ",
	install:   "install the packages that package.json names (npm ci)",
}

// vitest runs Vitest 3 and later. It takes a file name as a part of names, so the reporter keeps it to the files asked
// for; what ran besides is not reported.
type vitest struct{}

// Begin adds the reporter, and for a rerun the cases, after the atoms.
func (vitest) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	reporter, err := helperFile(s.Scratch, "towpath-vitest.mjs", vitestReporter)
	if err != nil {
		return Command{}, nil, err
	}
	args := []string{"--reporter=" + reporter}
	selecting := selectable(s.Units)
	if selecting {
		args = append(args, "--testNamePattern="+exactly(s.Units))
	}
	c, err := withArguments(s, towpath.ReportVitest, args...)
	if err != nil {
		return Command{}, nil, err
	}
	reading, events, err := newEventReading(vitestEvents, s, selecting)
	if err != nil {
		return Command{}, nil, err
	}
	names := make([]string, 0, len(reading.units))
	for name := range reading.units {
		names = append(names, name)
	}
	sort.Strings(names)
	asked, err := json.Marshal(names)
	if err != nil {
		return Command{}, nil, fmt.Errorf("name the files for vitest: %w", err)
	}
	env := append(slices.Clip(c.Env), "TOWPATH_EVENTS="+events)
	if len(asked) < 100<<10 {
		env = append(env, "TOWPATH_ASKED="+string(asked))
	}
	c.Env = env
	return c, reading, nil
}
