package runner

import (
	"slices"
	"strings"
)

// goCommand is a plain `go test … "$@"`, taken apart.
type goCommand struct {
	env    []string
	before []string // words between test and the packages
	after  []string // words behind the packages
}

// parseGoCommand takes shell text apart if it is a plain go test and nothing else. What is not is run as it stands.
func parseGoCommand(text string) (goCommand, bool) {
	var g goCommand
	words, ok := plainWords(text)
	if !ok {
		return g, false
	}
	for len(words) > 0 && isAssignment(words[0]) {
		g.env = append(g.env, words[0])
		words = words[1:]
	}
	if len(words) < 3 || words[0] != "go" || words[1] != "test" {
		return g, false
	}
	at := slices.Index(words, passed)
	if at < 0 || slices.Contains(words[at+1:], passed) {
		return g, false
	}
	g.before, g.after = words[2:at], words[at+1:]
	if slices.Contains(g.before, "-args") || slices.Contains(g.before, "--args") || slices.ContainsFunc(g.before, func(w string) bool { return flagName(w) == "exec" }) {
		return goCommand{}, false
	}
	// -v beside -json makes go test lose most events, and without -json there are none.
	g.before = slices.DeleteFunc(slices.Clone(g.before), isJSONOrVerbose)
	if at := slices.IndexFunc(g.after, func(w string) bool { return w == "-args" || w == "--args" }); at >= 0 {
		g.after = slices.Concat(slices.DeleteFunc(slices.Clone(g.after[:at]), isJSONOrVerbose), g.after[at:])
	} else {
		g.after = slices.DeleteFunc(slices.Clone(g.after), isJSONOrVerbose)
	}
	return g, true
}

func isJSONOrVerbose(word string) bool {
	name := flagName(word)
	return name == "json" || name == "v" || name == "test.v"
}

// flagName is the name of a flag without dashes and value, or "".
func flagName(word string) string {
	name, ok := strings.CutPrefix(word, "-")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return name
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// command is go test -json over the packages, with extra flags before them.
func (g goCommand) command(dir string, packages []string, extra ...string) Command {
	return Command{
		Argv: slices.Concat([]string{"go", "test", "-json"}, g.before, extra, packages, g.after),
		Dir:  dir,
		Env:  g.env,
	}
}

// counted says whether the command itself says how often tests run, which also keeps go test from giving remembered results.
func (g goCommand) counted() bool {
	return slices.ContainsFunc(slices.Concat(g.before, g.after), func(w string) bool {
		return strings.TrimPrefix(flagName(w), "test.") == "count"
	})
}

// narrowed says whether the command itself leaves tests out, so that a list of all would name some that must not run.
func (g goCommand) narrowed() bool {
	return slices.ContainsFunc(slices.Concat(g.before, g.after), func(w string) bool {
		switch strings.TrimPrefix(flagName(w), "test.") {
		case "run", "skip", "bench", "fuzz", "list", "failfast":
			return true
		}
		return false
	})
}
