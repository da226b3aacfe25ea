package runner

import (
	"context"
	_ "embed" // the reporter
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
	theirs := s.Job.Env["NODE_OPTIONS"]
	for _, kv := range s.Base.Env {
		if v, ok := strings.CutPrefix(kv, "NODE_OPTIONS="); ok {
			theirs = v
		}
	}
	c.Env = append(c.Env[:len(c.Env):len(c.Env)],
		"TOWPATH_EVENTS="+events,
		"TOWPATH_NODE_OPTIONS="+theirs,
		"TOWPATH_NODE_CHILD="+nodeOption(child),
		"NODE_OPTIONS="+strings.TrimSpace(theirs+` --test-reporter=`+nodeOption(reporter)),
	)
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
	if !special || len(c.Argv) < len(s.Units) {
		return c, nil
	}
	if major, err := nodeMajor(ctx, s); err != nil || major < 21 {
		return c, err
	}
	argv := append([]string(nil), c.Argv...)
	tail := argv[len(argv)-len(s.Units):]
	for i, u := range s.Units {
		if tail[i] != u.Name {
			return c, nil // not as arguments: the file of atoms is read by whoever wrote the command
		}
		tail[i] = escapeGlob(u.Name)
	}
	c.Argv = argv
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

// escapeGlob makes a pattern that matches exactly name.
func escapeGlob(name string) string {
	var b strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`*?[]{}()!+@\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
