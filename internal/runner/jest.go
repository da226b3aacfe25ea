package runner

import (
	"context"
	_ "embed" // the reporter
	"slices"

	"github.com/towpath/towpath"
)

//go:embed jest_reporter.cjs
var jestReporter []byte

var jestEvents = eventRunner{
	name:      "jest",
	separator: " › ",
	install:   "install the packages that package.json names (npm ci)",
}

// jest runs Jest 29 and later. Its own reporter is added by --reporters, which takes the place of those in the
// configuration; cases are selected by --testNamePattern.
type jest struct{}

// Begin adds the reporter, and for a rerun the cases, after the atoms.
func (jest) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	reporter, err := helperFile(s.Scratch, "towpath-jest.cjs", jestReporter)
	if err != nil {
		return Command{}, nil, err
	}
	args := []string{"--reporters=" + reporter}
	selecting := selectable(s.Units)
	if selecting {
		args = append(args, "--testNamePattern="+exactly(s.Units))
	}
	c, err := withArguments(s, towpath.ReportJest, args...)
	if err != nil {
		return Command{}, nil, err
	}
	reading, events, err := newEventReading(jestEvents, s, selecting)
	if err != nil {
		return Command{}, nil, err
	}
	c.Env = append(slices.Clip(c.Env), "TOWPATH_EVENTS="+events)
	return c, reading, nil
}
