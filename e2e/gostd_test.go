package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheGoStandardLibraryIsRunInPlaceWithGoTestsOwnResults tests packages of GOROOT where they are, unprepared, and
// compares every case and every package with go test -json. TOWPATH_TEST_GOSTD=all takes the long list, which needs many
// minutes.
func TestTheGoStandardLibraryIsRunInPlaceWithGoTestsOwnResults(t *testing.T) {
	t.Parallel()
	patterns := []string{"strings", "strconv", "sort", "container/...", "text/...", "encoding", "encoding/..."}
	if os.Getenv("TOWPATH_TEST_GOSTD") == "all" {
		patterns = append(patterns, "bufio", "bytes", "cmp", "errors", "fmt", "hash/...", "html/...", "iter", "maps", "math/...",
			"path/...", "regexp/...", "slices", "unicode/...", "go/...")
	}
	p := newProject(t, nil)
	p.dir = filepath.Join(strings.TrimSpace(p.native(0, "go", "env", "GOROOT").stdout), "src")
	need(t, "the source of the standard library", isFile(filepath.Join(p.dir, "strings", "strings_test.go")))
	compareWithGoTest(t, p, strings.Fields(p.native(0, slices.Concat([]string{"go", "list"}, patterns)...).stdout))
	if isFile(filepath.Join(p.dir, "towpath.yaml")) {
		t.Error("a towpath.yaml was left in GOROOT")
	}
}

// compareWithGoTest runs these packages with towpath and with go test -json, which must agree on each case and package.
func compareWithGoTest(t *testing.T, p *project, packages []string) {
	t.Helper()
	if len(packages) == 0 {
		t.Fatal("no packages")
	}
	args := []string{"run", "--json"}
	for _, pkg := range packages {
		args = append(args, "--only", pkg)
	}
	r := p.towpath(args...)
	b := finished(t, r)
	tests, atoms := map[string]string{}, map[string]string{}
	for line := range strings.Lines(r.stdout) {
		var o struct{ Type, Name, Atom, State string }
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		switch o.Type {
		case "case":
			if _, ok := tests[o.Atom+" "+o.Name]; ok {
				t.Errorf("%s %s is reported twice", o.Atom, o.Name)
			}
			tests[o.Atom+" "+o.Name] = o.State
		case "atom":
			atoms[o.Atom] = o.State
		}
	}

	wantTests, wantAtoms := goResults(t, p.native(-1, slices.Concat([]string{"go", "test", "-json"}, packages)...).stdout)
	want, got := tallyOf(wantTests), tally{b.Cases["passed"], b.Cases["failed"], b.Cases["skipped"]}
	t.Logf("%d packages, %+v", len(packages), want)
	if got != want || b.Cases["total"] != len(wantTests) {
		t.Errorf("build_finished counts %v, go test itself %+v", b.Cases, want)
	}
	if len(wantTests) < len(packages) {
		t.Errorf("go test knows %d cases only", len(wantTests))
	}
	differences(t, "case", withoutAddresses(tests), withoutAddresses(wantTests))
	ran := map[string]bool{}
	for name, state := range wantTests {
		pkg, _, _ := strings.Cut(name, " ")
		ran[pkg] = ran[pkg] || state != "skipped"
	}
	for pkg, state := range wantAtoms {
		if state == "passed" && !ran[pkg] {
			wantAtoms[pkg] = "skipped" // nothing ran in it, which go test calls ok
		}
	}
	differences(t, "package", atoms, wantAtoms)
	if b.Atoms["total"] != len(packages) {
		t.Errorf("%d atoms of %d packages", b.Atoms["total"], len(packages))
	}
	if wantCode := min(want.failed, 1); r.code != wantCode {
		t.Errorf("exit %d, want %d: %s", r.code, wantCode, b.Reason)
	}
}

var address = regexp.MustCompile(`0x[0-9a-f]+`)

// withoutAddresses takes out of names what differs from one process to the next, as in TestAs/0x244c28e2db60.
func withoutAddresses(states map[string]string) map[string]string {
	same := make(map[string]string, len(states))
	for name, state := range states {
		same[address.ReplaceAllString(name, "0x0")] = state
	}
	return same
}

// differences reports what is not in both maps with the same state.
func differences(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	shown := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] && shown < 20 {
			t.Errorf("%s %s is %q, and %q by go test itself", what, name, got[name], want[name])
			shown++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" && shown < 20 {
			t.Errorf("%s %s is %q, and go test does not know it", what, name, got[name])
			shown++
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
