package runner

import (
	"context"
	_ "embed" // the formatter
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
	theirs := s.Job.Env["SPEC_OPTS"]
	for _, kv := range s.Base.Env {
		if v, ok := strings.CutPrefix(kv, "SPEC_OPTS="); ok {
			theirs = v
		}
	}
	c.Env = append(c.Env[:len(c.Env):len(c.Env)],
		"TOWPATH_EVENTS="+events,
		"SPEC_OPTS="+strings.TrimSpace(theirs+" --require "+shellQuoted(formatter)+" --format TowpathFormatter"),
	)
	return c, reading, nil
}

// shellQuoted quotes a value for an option string that is split as a shell does.
func shellQuoted(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
