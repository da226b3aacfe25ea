package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// TestCases runs the small projects of testdata/cases, on which a test runner is tempted to say something untrue, and
// compares what towpath says with what each asks for: with an empty state directory, and again with what it remembers.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := parseExpectations(t, string(archive.Comment))
			p := newProject(t, nil)
			for _, f := range archive.Files {
				p.write(f.Name, string(f.Data))
			}
			c.provide(t, p)
			for _, turn := range []string{"first", "second"} {
				c.turn(t, p, turn)
			}
		})
	}
}

// expectations are the comment of a case, as testdata/cases/README.md explains it.
type expectations struct {
	kind    string
	expects []string
	then    []string
}

func parseExpectations(t *testing.T, comment string) expectations {
	t.Helper()
	var c expectations
	for line := range strings.Lines(comment) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "kind":
			c.kind = value
		case "expect":
			c.expects = append(c.expects, value)
		case "then":
			c.then = strings.Fields(value)
		}
	}
	if c.kind == "" || len(c.expects) == 0 {
		t.Fatalf("the case says neither kind nor what to expect:\n%s", comment)
	}
	return c
}

// provide makes available what the case's runner needs, or skips.
func (c expectations) provide(t *testing.T, p *project) {
	t.Helper()
	switch c.kind {
	case "pytest":
		need(t, "pytest", pytest(t) != "")
		p.env = append(p.env, "PATH="+filepath.Dir(pytest(t))+":"+os.Getenv("PATH"))
	case "jest", "vitest":
		modules := nodeModules()
		_, err := os.Stat(filepath.Join(modules, c.kind))
		need(t, c.kind, err == nil)
		if err := os.Symlink(modules, filepath.Join(p.dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	case "node":
		need(t, "node", found("node"))
	}
}

// pytest returns the path of a Python that has pytest, "" if there is none.
func pytest(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(python)
		if err == nil && exec.CommandContext(t.Context(), path, "-c", "import pytest").Run() == nil {
			return path
		}
	}
	return ""
}

// nodeModules is where scripts/test-deps puts the packages that JavaScript projects in tests need.
func nodeModules() string {
	if dir := os.Getenv("TOWPATH_TEST_NODE"); dir != "" {
		return filepath.Join(dir, "node_modules")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "towpath-test", "node", "node_modules")
}

// said is what towpath printed with --json.
type said struct {
	code     int
	took     time.Duration
	finished map[string]any
	cases    []map[string]any
	atoms    []map[string]any
	logs     string
	all      string
}

func (c expectations) turn(t *testing.T, p *project, turn string) {
	t.Helper()
	scratch := t.TempDir()
	p.env = append(p.env, "CASE_SCRATCH="+scratch)
	s := c.observe(t, p, "run")
	then := -1
	if len(c.then) > 0 {
		then = p.towpath(c.then[1:]...).code
	}
	for _, e := range c.expects {
		if problem := s.check(p, e, then); problem != "" {
			t.Errorf("%s run: expect %s: %s", turn, e, problem)
		}
	}
	if t.Failed() {
		t.Logf("%s run printed:\n%s", turn, s.all)
	}
}

func (c expectations) observe(t *testing.T, p *project, args ...string) said {
	t.Helper()
	r := p.towpath(append(args, "--json")...)
	s := said{code: r.code, took: r.took, all: r.stdout + r.stderr}
	sc := bufio.NewScanner(strings.NewReader(r.stdout))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var o map[string]any
		if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
			t.Errorf("a line of standard output is no JSON object: %v: %s", err, sc.Text())
			continue
		}
		switch o["type"] {
		case "build_finished":
			s.finished = o
		case "case":
			s.cases = append(s.cases, o)
		case "atom":
			s.atoms = append(s.atoms, o)
		}
	}
	if s.finished == nil {
		t.Errorf("no build_finished came; stderr: %s", r.stderr)
		return s
	}
	s.logs = p.towpath("logs", fmt.Sprint(s.finished["build"])).stdout
	return s
}

// check returns what is wrong, "" if nothing is.
func (s said) check(p *project, expect string, then int) string {
	key, rest, _ := strings.Cut(expect, " ")
	switch key {
	case "exit":
		return mismatch(strconv.Itoa(s.code), rest)
	case "state":
		return mismatch(fmt.Sprint(s.finished["state"]), rest)
	case "atoms", "cases":
		return s.checkCounts(key, rest)
	case "failing", "passing", "flaky":
		return s.checkNamed(map[string]string{"failing": "failed", "passing": "passed", "flaky": "flaky"}[key], rest)
	case "unfinished":
		if n, ok := strings.CutPrefix(rest, "unfinished="); ok {
			return s.checkCounts("cases", "unfinished="+n)
		}
		return s.checkNamed("unfinished", rest)
	case "reason":
		text := strings.ToLower(s.all + s.logs)
		for word := range strings.SplitSeq(strings.ToLower(rest), "|") {
			if strings.Contains(text, word) || strings.Contains(text, jsonText(word)) {
				return ""
			}
		}
		return "it is nowhere in the reasons, the summary or the logs"
	case "within":
		limit, err := time.ParseDuration(rest)
		if err != nil || s.took > limit {
			return fmt.Sprintf("it took %s", s.took)
		}
		return ""
	case "absent":
		if _, err := os.Lstat(filepath.Join(p.dir, rest)); err == nil {
			return "it is there"
		}
		return ""
	case "then":
		return mismatch(strconv.Itoa(then), strings.TrimPrefix(rest, "exit "))
	}
	return "the test does not know how to check this"
}

// jsonText is text as it stands inside a JSON string.
func jsonText(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return strings.Trim(string(data), `"`)
}

func mismatch(got, want string) string {
	for w := range strings.SplitSeq(want, "|") {
		if got == w {
			return ""
		}
	}
	return "got " + got
}

var countPattern = regexp.MustCompile(`^(\w+)(=|>=)(.+)$`)

func (s said) checkCounts(which, want string) string {
	counts, ok := s.finished[which].(map[string]any)
	if !ok {
		return "build_finished has no " + which
	}
	for word := range strings.FieldsSeq(want) {
		m := countPattern.FindStringSubmatch(word)
		if m == nil {
			return "cannot read " + word
		}
		got, ok := counts[m[1]].(float64)
		if !ok {
			return "there is no column " + m[1]
		}
		if least, err := strconv.ParseFloat(m[3], 64); m[2] == ">=" && (err != nil || got < least) {
			return fmt.Sprintf("%s is %v", m[1], got)
		}
		if problem := mismatch(strconv.Itoa(int(got)), m[3]); m[2] == "=" && problem != "" {
			return m[1] + ": " + problem
		}
	}
	return ""
}

func (s said) checkNamed(state, name string) string {
	for _, list := range [][]map[string]any{s.cases, s.atoms} {
		for _, o := range list {
			for _, field := range []string{"name", "atom"} {
				if text, ok := o[field].(string); ok && o["state"] == state && strings.HasSuffix(text, name) && (field == "name" || o["type"] == "atom") {
					return ""
				}
			}
		}
	}
	return "no " + state + " case or atom has a name that ends so"
}
