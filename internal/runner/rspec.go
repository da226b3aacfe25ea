package runner

import (
	"context"
	_ "embed" // the formatter
	"slices"
	"strings"
)

//go:embed rspec_formatter.rb
var rspecFormatter []byte

var rspecEvents = eventRunner{
	name:      "rspec",
	separator: " ",
	install:   "install it (bundle install, or gem install rspec)",
}

// rspec runs RSpec 3. The formatter travels in SPEC_OPTS; cases are selected by RSpec's own example ids.
type rspec struct{}

// Begin adds the formatter to the environment, and for a rerun puts the ids of examples in place of the files.
func (rspec) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	formatter, err := helperFile(s.Scratch, "towpath-rspec.rb", rspecFormatter)
	if err != nil {
		return Command{}, nil, err
	}
	c, selecting := s.Base, false
	if selectable(s.Units) {
		var ids []string
		for _, u := range s.Units {
			ids = append(ids, u.Cases...)
		}
		c, selecting = withArgs(s, ids)
	}
	reading, events, err := newEventReading(rspecEvents, s, selecting)
	if err != nil {
		return Command{}, nil, err
	}
	// What is in SPEC_OPTS stays in force, and only the process itself knows it.
	const wrap = `SPEC_OPTS="${SPEC_OPTS:+$SPEC_OPTS }$1"
export SPEC_OPTS
shift
exec "$@"`
	c.Argv = slices.Concat([]string{"sh", "-c", wrap, "towpath", "--require " + shellQuoted(formatter) + " --format TowpathFormatter"}, c.Argv)
	c.Env = append(slices.Clip(c.Env), "TOWPATH_EVENTS="+events)
	return c, reading, nil
}

// shellQuoted quotes a value for an option string that is split as a shell does.
func shellQuoted(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
