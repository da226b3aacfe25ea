package runner

import (
	"context"
	_ "embed" // the reporter
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

//go:embed node_reporter.mjs
var nodeReporter []byte

//go:embed node_child.cjs
var nodeChild []byte

var nodeEvents = eventRunner{
	name:      "node",
	separator: " > ",
	install:   "install Node.js 20 or later",
}

// node runs node --test of Node 20 and later. The reporter travels in NODE_OPTIONS, so the command may be any that ends
// in node --test. Node selects tests by each title of their path alone, which is not exact: reruns are of whole files.
type node struct{}

// Begin adds the reporter to the environment.
func (node) Begin(ctx context.Context, s Spec) (Command, Reading, error) {
	reporter, err := helperFile(s.Scratch, "towpath-node.mjs", nodeReporter)
	if err != nil {
		return Command{}, nil, err
	}
	child, err := helperFile(s.Scratch, "towpath-node-child.cjs", nodeChild)
	if err != nil {
		return Command{}, nil, err
	}
	c, err := literalPaths(ctx, s)
	if err != nil {
		return Command{}, nil, err
	}
	reading, events, err := newEventReading(nodeEvents, s, false)
	if err != nil {
		return Command{}, nil, err
	}
	// What is in NODE_OPTIONS stays in force, and only the process itself knows it.
	const wrap = `TOWPATH_NODE_OPTIONS=${NODE_OPTIONS-} NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }$1"
export TOWPATH_NODE_OPTIONS NODE_OPTIONS
shift
exec "$@"`
	c.Argv = slices.Concat([]string{"sh", "-c", wrap, "towpath", "--test-reporter=" + nodeOption(reporter)}, c.Argv)
	c.Env = append(slices.Clip(c.Env), "TOWPATH_EVENTS="+events, "TOWPATH_NODE_CHILD="+nodeOption(child))
	return c, reading, nil
}

// nodeOption quotes a value for NODE_OPTIONS, which splits at spaces.
func nodeOption(path string) string {
	if !strings.ContainsAny(path, " \"\\") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// literalPaths returns the command with each atom escaped if this Node takes its arguments for patterns, as Node does
// from 21 on: app/[id]/page.test.js would match nothing, and nothing is no failure to it.
func literalPaths(ctx context.Context, s Spec) (Command, error) {
	c := s.Base
	special := false
	for _, u := range s.Units {
		special = special || strings.ContainsAny(u.Name, `*?[]{}()!+@\`)
	}
	if !special {
		return c, nil
	}
	if major, err := nodeMajor(ctx, s); err != nil || major < 21 {
		return c, err
	}
	patterns := make([]string, len(s.Units))
	for i, u := range s.Units {
		patterns[i] = escapeGlob(u.Name)
	}
	c, _ = withArgs(s, patterns) // if the atoms are no arguments, whoever wrote the command reads them from the file
	return c, nil
}

func nodeMajor(ctx context.Context, s Spec) (int, error) {
	out, _, exit, err := s.Exec(ctx, Command{Argv: []string{"node", "--version"}, Dir: s.Dir, Env: s.Base.Env}, 30*time.Second)
	if err != nil || exit != 0 {
		return 0, nodeMissing(err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	major, err := strconv.Atoi(version)
	if err != nil {
		return 0, nodeMissing(err)
	}
	return major, nil
}

func nodeMissing(err error) error {
	return &towpath.Error{Code: towpath.CodeConfig, Message: "node --version gave no version: install Node.js 20 or later, or put it on PATH", Err: err}
}

// escapeGlob makes a pattern that matches name. Node's patterns know no escape, only classes, and braces are expanded
// before classes are read: a few characters can only become "any one", and what else that runs is not reported.
func escapeGlob(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case strings.ContainsRune(`{!\`, r):
			b.WriteByte('?')
		case strings.ContainsRune(`*?[(+@`, r):
			b.WriteString("[" + string(r) + "]")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
