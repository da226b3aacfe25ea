package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tally is how many cases passed, failed and were skipped.
type tally struct{ passed, failed, skipped int }

// example is a project of examples/. Its own runner is asked for the counts too, as it is and with one line spoilt.
type example struct {
	program string // what must be on PATH; "" if provide knows
	native  func(*testing.T, *project) tally
	spoil   [3]string // file, what stands there, what makes cases fail
}

var examples = map[string]example{
	"go":      {"go", nativeGo, [3]string{"lock/lock.go", "gates := 2", "gates := 3"}},
	"pytest":  {"", nativePytest, [3]string{"canal/__init__.py", "2 * length", "3 * length"}},
	"jest":    {"", nativeJest, [3]string{"src/toll.js", "night: 3", "night: 4"}},
	"vitest":  {"", nativeVitest, [3]string{"src/queue.js", "mail ? this.#mail", "!mail ? this.#mail"}},
	"node":    {"", nativeNode, [3]string{"lib/route.js", "return null;", "return [];"}},
	"rspec":   {"rspec", nativeRSpec, [3]string{"lib/boat.rb", "tons > free", "tons > 99"}},
	"phpunit": {"phpunit", nativePHPUnit, [3]string{"src/Gauge.php", "$mean > 3", "$mean > 30"}},
	"cargo":   {"cargo", nativeCargo, [3]string{"toll/src/lib.rs", "{ 3 }", "{ 4 }"}},
}

// TestExamplesAreRunUnpreparedWithTheCountsOfTheirOwnRunner also holds init to what the recognition does.
func TestExamplesAreRunUnpreparedWithTheCountsOfTheirOwnRunner(t *testing.T) {
	t.Parallel()
	for name, e := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newExample(t, name)
			if e.program != "" {
				need(t, e.program, found(e.program))
			}
			expectations{kind: name}.provide(t, p)
			p.compare(e.native(t, p), 0)

			written := p.towpath("init", "--stdout")
			if r := p.towpath("init"); r.code != 0 || written.code != 0 {
				t.Fatalf("init: exit %d: %s", r.code, r.stderr)
			}
			if got := p.read("towpath.yaml"); got != written.stdout {
				t.Errorf("init wrote\n%s\nand with --stdout\n%s", got, written.stdout)
			}
			p.compare(e.native(t, p), 0)

			p.replace(e.spoil[0], e.spoil[1], e.spoil[2])
			want := e.native(t, p)
			if want.failed == 0 {
				t.Fatalf("the spoilt line of %s makes no case fail: %+v", e.spoil[0], want)
			}
			p.compare(want, 1)
		})
	}
}

// TestEveryExampleIsTested keeps new folders from being forgotten.
func TestEveryExampleIsTested(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := examples[e.Name()]; e.IsDir() && !ok && e.Name() != "make" {
			t.Errorf("no test knows examples/%s", e.Name())
		}
	}
}

// TestMakeTargetsAreAtomsWithTheResultsThatMakeGives runs the example without a test runner, and make itself by --.
func TestMakeTargetsAreAtomsWithTheResultsThatMakeGives(t *testing.T) {
	t.Parallel()
	need(t, "make", found("make"))
	p := newExample(t, "make")
	for _, spoilt := range []bool{false, true} {
		if spoilt {
			p.replace("levels.tsv", "2.4", "0.4")
		}
		passed, failed := 0, 0
		for target := range strings.FieldsSeq(p.native(0, "make", "-s", "list").stdout) {
			if p.native(-1, "make", "-s", target).code == 0 {
				passed++
			} else {
				failed++
			}
		}
		if passed == 0 || (failed > 0) != spoilt {
			t.Fatalf("make: %d passed, %d failed", passed, failed)
		}
		code := min(failed, 1)
		r := p.towpath("run", "--json")
		if b := finished(t, r); r.code != code || b.Atoms["passed"] != passed || b.Atoms["failed"] != failed || b.Atoms["total"] != passed+failed {
			t.Errorf("exit %d, atoms %v; make itself: %d passed, %d failed", r.code, b.Atoms, passed, failed)
		}
		r = p.towpath("run", "--json", "--", "make", "check")
		if b := finished(t, r); r.code != code || b.Atoms["passed"] != 1-code || b.Atoms["failed"] != code || b.Atoms["total"] != 1 {
			t.Errorf("run -- make check: exit %d, atoms %v", r.code, b.Atoms)
		}
	}
}

// newExample copies a project of examples/ without what its tools left there.
func newExample(t *testing.T, name string) *project {
	t.Helper()
	p := newProject(t, nil)
	root := filepath.Join("../examples", name)
	leftovers := []string{"node_modules", "target", "__pycache__", ".pytest_cache", "vendor"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(leftovers, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p.write(rel, string(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *project) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func (p *project) replace(name, old, text string) {
	p.t.Helper()
	was := p.read(name)
	if !strings.Contains(was, old) {
		p.t.Fatalf("%s has no %q", name, old)
	}
	p.write(name, strings.Replace(was, old, text, 1))
}

// compare runs towpath and holds its counts of cases against those of the native runner.
func (p *project) compare(want tally, code int) {
	p.t.Helper()
	r := p.towpath("run", "--json")
	b := finished(p.t, r)
	got := tally{b.Cases["passed"], b.Cases["failed"], b.Cases["skipped"]}
	if got != want || b.Cases["total"] != want.passed+want.failed+want.skipped || r.code != code {
		p.t.Errorf("exit %d, want %d; counted %+v of %v; the runner itself says %+v\n%s\n%s", r.code, code, got, b.Cases, want, r.stdout, r.stderr)
	}
}

// native runs another program in the project. It must exit with code, unless that is negative.
func (p *project) native(code int, argv ...string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.dir, append(p.environ(), "CI=true")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || code >= 0 && cmd.ProcessState.ExitCode() != code {
		p.t.Fatalf("%s: %v\n%s\n%s", strings.Join(argv, " "), err, out.String(), errs.String())
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(start)}
}

// goResults reads go test -json without any of Towpath's own readers: what each test of each package ended with, and
// each package under its own name.
func goResults(t *testing.T, output string) (tests, packages map[string]string) {
	t.Helper()
	tests, packages = map[string]string{}, map[string]string{}
	for line := range strings.Lines(output) {
		var e struct{ Action, Package, Test string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("go test -json: %v: %s", err, line)
		}
		state, ok := map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}[e.Action]
		switch {
		case !ok:
		case e.Test != "":
			tests[e.Package+" "+e.Test] = state
		default:
			packages[e.Package] = state
		}
	}
	return tests, packages
}

func tallyOf(states map[string]string) tally {
	var c tally
	for _, state := range states {
		switch state {
		case "passed":
			c.passed++
		case "failed":
			c.failed++
		case "skipped":
			c.skipped++
		}
	}
	return c
}

func nativeGo(t *testing.T, p *project) tally {
	t.Helper()
	tests, _ := goResults(t, p.native(-1, "go", "test", "-json", "./...").stdout)
	return tallyOf(tests)
}

// sumOf adds up the numbers that stand before or after some words in a runner's summary.
func sumOf(t *testing.T, text string, patterns ...string) int {
	t.Helper()
	sum := 0
	for _, pattern := range patterns {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// nativePytest reads the summary line. Expected failures are skips, as everywhere in JUnit's terms.
func nativePytest(t *testing.T, p *project) tally {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.native(-1, pytest(t), "-m", "pytest", "-q", "-p", "no:cacheprovider").stdout), "\n")
	last := lines[len(lines)-1]
	return tally{sumOf(t, last, `(\d+) x?passed`), sumOf(t, last, `(\d+) failed`, `(\d+) errors?`), sumOf(t, last, `(\d+) skipped`, `(\d+) xfailed`)}
}

func nativeNode(t *testing.T, p *project) tally {
	t.Helper()
	out := p.native(-1, "node", "--test", "--test-reporter=tap").stdout
	return tally{sumOf(t, out, `(?m)^# pass (\d+)$`), sumOf(t, out, `(?m)^# fail (\d+)$`, `(?m)^# cancelled (\d+)$`), sumOf(t, out, `(?m)^# skipped (\d+)$`, `(?m)^# todo (\d+)$`)}
}

func nativeJest(t *testing.T, p *project) tally {
	t.Helper()
	return jestSummary(t, p.native(-1, "node_modules/.bin/jest", "--json").stdout)
}

func nativeVitest(t *testing.T, p *project) tally {
	t.Helper()
	return jestSummary(t, p.native(-1, "node_modules/.bin/vitest", "run", "--reporter=json").stdout)
}

func jestSummary(t *testing.T, out string) tally {
	t.Helper()
	var s struct{ NumPassedTests, NumFailedTests, NumPendingTests, NumTodoTests int }
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("the summary cannot be read: %v\n%s", err, out)
	}
	return tally{s.NumPassedTests, s.NumFailedTests, s.NumPendingTests + s.NumTodoTests}
}

func nativeRSpec(t *testing.T, p *project) tally {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rspec.json")
	p.native(-1, "rspec", "--format", "json", "--out", file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Summary struct {
			Examples int `json:"example_count"`
			Failures int `json:"failure_count"`
			Pending  int `json:"pending_count"`
		}
	}
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatalf("the summary cannot be read: %v\n%s", err, data)
	}
	return tally{s.Summary.Examples - s.Summary.Failures - s.Summary.Pending, s.Summary.Failures, s.Summary.Pending}
}

func nativePHPUnit(t *testing.T, p *project) tally {
	t.Helper()
	out := p.native(-1, "phpunit", "--colors=never").stdout
	total := sumOf(t, out, `(?m)^OK \((\d+) tests?,`, `(?m)^Tests: (\d+),`)
	failed, skipped := sumOf(t, out, `Failures: (\d+)`, `Errors: (\d+)`), sumOf(t, out, `Skipped: (\d+)`, `Incomplete: (\d+)`)
	return tally{total - failed - skipped, failed, skipped}
}

func nativeCargo(t *testing.T, p *project) tally {
	t.Helper()
	out := p.native(-1, "cargo", "test", "--workspace", "--no-fail-fast").stdout
	var c tally
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "test result: ") {
			var n tally
			text := line[strings.Index(line, ".")+1:]
			if _, err := fmt.Sscanf(text, " %d passed; %d failed; %d ignored;", &n.passed, &n.failed, &n.skipped); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			c.passed, c.failed, c.skipped = c.passed+n.passed, c.failed+n.failed, c.skipped+n.skipped
		}
	}
	return c
}
