package runner

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/towpath/towpath"
)

var phpunitEvents = eventRunner{
	name:      "phpunit",
	separator: " ",
	install:   "install it (composer install, or the package phpunit)",
}

// phpunit runs PHPUnit 9 and later, one file a command. Its TeamCity log is written while the tests run, which its JUnit
// log is not; cases are selected by --filter.
type phpunit struct{}

// Begin adds the log, and for a rerun the filter, after the atom.
func (phpunit) Begin(_ context.Context, s Spec) (Command, Reading, error) {
	if len(s.Units) > 1 {
		return Command{}, nil, towpath.Errorf(towpath.CodeConfig,
			"job %s: PHPUnit takes one file at a time and was to run %d: set batch: 1", s.Job.Name, len(s.Units))
	}
	selecting := selectable(s.Units)
	reading, events, err := newEventReading(phpunitEvents, s, selecting)
	if err != nil {
		return Command{}, nil, err
	}
	args := []string{"--log-teamcity=" + events}
	if selecting {
		args = append(args, "--filter=/"+exactly(s.Units)+"/")
	}
	c, err := withArguments(s, towpath.ReportPHPUnit, args...)
	if err != nil {
		return Command{}, nil, err
	}
	log := &teamcity{unit: under(s.Dir, s.Units[0].Name)}
	reading.decode = log.line
	return c, &phpunitReading{reading}, nil
}

// phpunitReading is an eventReading that knows what PHPUnit's exit status 0 means.
type phpunitReading struct{ *eventReading }

// Close tells risky tests, which the log calls failed, from those that PHPUnit itself takes for failures.
func (r *phpunitReading) Close(ctx context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	r.log.poll() // nobody else does any more
	f := &r.files[0]
	failed := 0
	for _, l := range f.results {
		if l.State == "failed" && !risky.MatchString(l.Message) {
			failed++
		}
	}
	for i, l := range f.results {
		if l.State == "failed" && (end.ExitCode == 0 || failed > 0 && risky.MatchString(l.Message)) {
			f.results[i].State, f.results[i].Message = "passed", "risky: "+l.Message
		}
	}
	return r.eventReading.Close(ctx, end)
}

// risky are the messages of tests that PHPUnit finds fault with and does not fail unless told to.
var risky = regexp.MustCompile(`^(This test did not perform any assertions|This test printed output|Test code or tested code |This test is annotated with|Test was run in child process)`)

// teamcity reads PHPUnit's TeamCity log.
type teamcity struct {
	unit  string // the file that was asked for
	depth int
	test  logged
}

// line reads one line of the log.
func (t *teamcity) line(line []byte) []logged {
	text, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "##teamcity[")
	if !ok {
		return nil
	}
	kind, rest, _ := strings.Cut(strings.TrimSuffix(text, "]"), " ")
	attr := teamcityAttributes(rest)
	switch kind {
	case "testSuiteStarted":
		t.depth++
		return []logged{{Type: "file", File: t.unit}}
	case "testSuiteFinished":
		t.depth--
		if t.depth > 0 {
			return nil
		}
		return []logged{{Type: "end", File: t.unit, State: "passed"}, {Type: "over"}}
	case "testStarted":
		name := attr["name"]
		if _, of, ok := strings.Cut(attr["locationHint"], "::\\"); ok {
			name = of
		}
		t.test = logged{File: t.unit, Path: []string{name}, Full: name, State: "passed"}
		start := t.test
		start.Type = "start"
		return []logged{start}
	case "testFailed":
		t.test.State = "failed"
		t.test.Message, t.test.Detail = attr["message"], attr["message"]+"\n"+strings.TrimSpace(attr["details"])
	case "testIgnored":
		t.test.State, t.test.Message = "skipped", attr["message"]
	case "testFinished":
		t.test.MS, _ = strconv.ParseFloat(attr["duration"], 64) // without one it is 0
		done := t.test
		done.Type = "case"
		return []logged{done}
	}
	return nil
}

// teamcityAttributes reads name='value' pairs, in which | escapes.
func teamcityAttributes(s string) map[string]string {
	attr := make(map[string]string)
	for {
		name, rest, ok := strings.Cut(strings.TrimLeft(s, " "), "='")
		if !ok {
			return attr
		}
		var value strings.Builder
		i := 0
	scan:
		for ; i < len(rest); i++ {
			switch c := rest[i]; {
			case c == '\'':
				break scan
			case c == '|' && i+1 < len(rest):
				i++
				switch rest[i] {
				case 'n':
					value.WriteByte('\n')
				case 'r':
					value.WriteByte('\r')
				case '0': // |0xABCD
					if i+5 < len(rest) {
						if n, err := strconv.ParseUint(rest[i+2:i+6], 16, 32); err == nil {
							value.WriteRune(rune(n))
							i += 5
						}
					}
				default:
					value.WriteByte(rest[i])
				}
			default:
				value.WriteByte(c)
			}
		}
		attr[name] = value.String()
		s = rest[min(i+1, len(rest)):]
	}
}
