package runner

import (
	"slices"
	"testing"

	"github.com/towpath/towpath"
)

const splitTests = `package deep

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestA(t *testing.T) {
	if wd, _ := os.Getwd(); filepath.Base(wd) != "deep" {
		t.Error(wd)
	}
}

func TestAB(t *testing.T) { t.Run("x", func(*testing.T) {}) }

func TestC(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
}

func Example() {
	fmt.Println("full")
	// Output: full
}

func FuzzDepth(f *testing.F) {
	f.Add(3)
	f.Fuzz(func(t *testing.T, d int) {})
}
`

func partOf(name string, p towpath.Part) []towpath.OfferedUnit {
	list := units(name)
	list[0].Part = p.Index + 1
	list[0].Split = &p
	return list
}

func TestGoPartsTogetherAreThePackage(t *testing.T) {
	t.Parallel()
	g := rig{t: t, scratch: t.TempDir(), dir: goProject(t, "example.com/m", map[string]string{"deep/deep_test.go": splitTests})}
	text := `go test -json -short -timeout 30s -vet=off "$@"`
	first := g.run(goTest{}, towpath.ReportGoTest, text, partOf("example.com/m/deep", towpath.Part{Of: 2, Run: []string{"TestA", "TestC"}}))
	first.check(t, 0, towpath.OutcomePassed, "")
	same(t, first.states(0), "passed TestA", "skipped TestC")
	rest := g.run(goTest{}, towpath.ReportGoTest, text, partOf("./deep", towpath.Part{Index: 1, Of: 2, Rest: true, Skip: []string{"TestA", "TestC"}}))
	rest.check(t, 0, towpath.OutcomePassed, "")
	same(t, rest.states(0), "passed TestAB", "passed TestAB/x", "passed Example", "passed FuzzDepth", "passed FuzzDepth/seed#0")
}

func TestGoPartThatLostATestIsNotSplit(t *testing.T) {
	t.Parallel()
	g := rig{t: t, dir: goProject(t, "example.com/m", map[string]string{"deep/deep_test.go": splitTests})}
	g.run(goTest{}, towpath.ReportGoTest, goRun, partOf("example.com/m/deep", towpath.Part{Of: 2, Run: []string{"TestA", "TestGone"}})).
		check(t, 0, towpath.OutcomeNotSplit, "TestGone")
}

func TestGoPartFailsOnCrashAndVet(t *testing.T) {
	t.Parallel()
	g := rig{t: t, dir: goProject(t, "example.com/m", map[string]string{
		"a/a_test.go": "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) { os.Exit(0) }\n\nfunc TestB(t *testing.T) {}\n",
		"b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n\nfunc TestB(t *testing.T) { t.Logf(\"%d\", \"x\") }\n",
	})}
	g.run(goTest{}, towpath.ReportGoTest, goRun, partOf("example.com/m/a", towpath.Part{Of: 2, Run: []string{"TestA"}})).
		check(t, 0, towpath.OutcomeFailed, "os.Exit(0)")
	g.run(goTest{}, towpath.ReportGoTest, goRun, partOf("example.com/m/b", towpath.Part{Of: 2, Rest: true, Skip: []string{"TestA"}})).
		check(t, 0, towpath.OutcomeFailed, "Logf format %d")
}

func TestGoPackageThatCannotBeDividedIsNotSplit(t *testing.T) {
	t.Parallel()
	withMain := "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n\nfunc TestA(t *testing.T) {}\n"
	g := rig{t: t, dir: goProject(t, "example.com/m", map[string]string{"m_test.go": withMain})}
	part := partOf("example.com/m", towpath.Part{Of: 2, Run: []string{"TestA"}})
	g.run(goTest{}, towpath.ReportGoTest, goRun, part).check(t, 0, towpath.OutcomeNotSplit, "TestMain")
	for _, text := range []string{`go test -json "$@" | cat`, `go test -json -cover "$@"`, `go test -json -run Short "$@"`} {
		g.run(goTest{}, towpath.ReportGoTest, text, part).check(t, 0, towpath.OutcomeNotSplit, "")
	}
}

func TestGoFlagsAreDividedBetweenCompilationAndRun(t *testing.T) {
	t.Parallel()
	g, ok := parseGoCommand(`go test -json -race -tags "a b" -vet=off -count=1 -timeout 5s "$@" -args -x`)
	if !ok {
		t.Fatal("not plain")
	}
	f, err := g.splitFlags()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.build, []string{"-race", "-tags", "a b", "-vet=off"}) || !slices.Equal(f.run, []string{"-test.count=1", "-test.timeout=5s"}) || !slices.Equal(f.args, []string{"-x"}) || !f.timeout {
		t.Errorf("%+v", f)
	}
}

func TestGoCommandIsPlainOrNot(t *testing.T) {
	t.Parallel()
	for text, plain := range map[string]bool{
		`go test -json "$@"`:                    true,
		`CGO_ENABLED=0 go test -json "$@"`:      true,
		`go test -json -tags 'a b' "$@" -short`: true,
		"go test -json \"$@\"\n":                true,
		`go test -json $@`:                      false,
		`go test -json "$@" | tee log`:          false,
		`go test -json "$@" && go vet`:          false,
		`go test -json ./...`:                   false,
		`go test -json "$@" "$@"`:               false,
		`go test -json -ldflags "-X a=$V" "$@"`: false,
		`go test -json -exec sudo "$@"`:         false,
		`cd sub; go test -json "$@"`:            false,
		`gotestsum -- "$@"`:                     false,
		"go test \\\n  -json \"$@\"":            false,
		`go test -json "x$@"`:                   false,
		`go test -json -args -- "$@"`:           false,
	} {
		if _, got := parseGoCommand(text); got != plain {
			t.Errorf("%s: plain %v", text, got)
		}
	}
}
