package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

func TestGoPackageThatFailedBeforeGetsNoRememberedResult(t *testing.T) {
	t.Parallel()
	dir := goProject(t, "example.com/calm", map[string]string{"c_test.go": "package calm\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"})
	g := rig{t: t, dir: dir}
	list := units("example.com/calm")
	g.run(goTest{}, towpath.ReportGoTest, goRun, list)
	if o := g.run(goTest{}, towpath.ReportGoTest, goRun, list); !o.reports[0].Cached {
		t.Fatal("go test does not remember the result, so this test proves nothing")
	}
	list[0].Fresh = true
	if o := g.run(goTest{}, towpath.ReportGoTest, goRun, list); o.reports[0].Cached || o.reports[0].Counts.Passed != 1 {
		t.Errorf("a remembered result was taken: %+v", o.reports[0])
	}
	if gc, ok := parseGoCommand(`go test -count=3 -json "$@"`); !ok || !gc.counted() {
		t.Error("-count=3 is overlooked")
	}
	if gc, _ := parseGoCommand(`go test -json -cover "$@"`); gc.counted() {
		t.Error("-cover is taken for -count")
	}
}
