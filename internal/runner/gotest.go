package runner

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// goListLimit bounds the listings that the go command is asked for.
const goListLimit = 20 * time.Second

// goTest is the runner of go test -json. An atom is a package, or a pattern of packages.
type goTest struct{}

func (goTest) Begin(ctx context.Context, s Spec) (Command, Reading, error) {
	g, simple := parseGoCommand(s.Job.Run)
	if len(s.Units) == 1 && s.Units[0].Split != nil {
		return beginPart(ctx, s, g, simple)
	}
	r, err := newGoReading(ctx, s, g)
	if err != nil {
		return Command{}, nil, err
	}
	r.simple = simple
	names := unitNames(s.Units)
	if _, carried := withArgs(s, nil); !simple || !carried {
		return s.Base, r, nil
	}
	var extra []string
	if pattern := goSelection(s.Units); pattern != "" {
		// A remembered pass would make a broken test look flaky, so a rerun always runs.
		extra = []string{"-count=1", "-run=" + pattern}
		r.selected = true
	} else if slices.ContainsFunc(s.Units, func(u towpath.OfferedUnit) bool { return u.Fresh }) && !g.counted() {
		extra = []string{"-count=1"}
	}
	c := g.command(s.Base.Dir, names, extra...)
	c.Env = slices.Concat(s.Base.Env, c.Env)
	return c, r, nil
}

// goUnits finds the units to which each package belongs. Names that are import paths speak for themselves; for folders and
// patterns the go command is asked.
func goUnits(ctx context.Context, s Spec, g goCommand) (units map[string][]int, packages [][]string, err error) {
	units = make(map[string][]int, len(s.Units))
	packages = make([][]string, len(s.Units))
	byName := make(map[string][]int, len(s.Units))
	var ask []string
	for i, u := range s.Units {
		byName[u.Name] = append(byName[u.Name], i)
		if strings.HasPrefix(u.Name, ".") || strings.HasPrefix(u.Name, "/") || strings.Contains(u.Name, "...") {
			ask = append(ask, u.Name)
			continue
		}
		units[u.Name] = append(units[u.Name], i)
		packages[i] = []string{u.Name}
	}
	if len(ask) == 0 {
		return units, packages, nil
	}
	argv := slices.Concat([]string{"go", "list", "-e", "-find", "-f", `{{.ImportPath}}{{range .Match}}{{"\t"}}{{.}}{{end}}`}, g.listFlags(), ask)
	out, stderr, exit, err := s.Exec(ctx, Command{Argv: argv, Dir: s.Base.Dir, Env: slices.Concat(s.Base.Env, g.env)}, goListLimit)
	if err != nil {
		return nil, nil, fmt.Errorf("ask which packages %s names: %w", ask[0], err)
	}
	if exit != 0 && len(bytes.TrimSpace(out)) == 0 {
		return nil, nil, towpath.Errorf(towpath.CodeConfig, "go list %s ended with exit status %d: %s", strings.Join(ask, " "), exit, lastLine(string(stderr)))
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		for _, match := range fields[1:] {
			for _, i := range byName[match] {
				if !slices.Contains(packages[i], fields[0]) {
					units[fields[0]] = append(units[fields[0]], i)
					packages[i] = append(packages[i], fields[0])
				}
			}
		}
	}
	for _, name := range ask {
		for _, i := range byName[name] {
			if len(packages[i]) == 0 {
				units[name] = append(units[name], i) // go test will say what is wrong with it, under this name
				packages[i] = []string{name}
			}
		}
	}
	return units, packages, nil
}

// listFlags are the flags that decide which files a package consists of.
func (g goCommand) listFlags() []string {
	var flags []string
	for i, w := range g.before {
		switch flagName(w) {
		case "tags", "mod", "modfile", "overlay":
			flags = append(flags, w)
			if !strings.Contains(w, "=") && i+1 < len(g.before) {
				flags = append(flags, g.before[i+1])
			}
		case "race", "msan", "asan":
			flags = append(flags, w)
		}
	}
	return flags
}
