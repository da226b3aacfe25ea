package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

const jestRun = `node_modules/.bin/jest --maxWorkers=1 --runTestsByPath "$@"`

func jestRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	files["package.json"] = `{"private": true}`
	dir := project(t, files)
	modules(t, dir, "jest")
	return rig{t: t, dir: dir}
}

func TestJestRunsExactlyTheFilesAskedFor(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{
		"app/[id]/page.test.js":        `test('id', () => {});`,
		"app/(shop)/cart+sum.test.js":  `test('total', () => { expect(2 + 2).toBe(5); });`,
		"lock.test.js":                 `test('lock', () => {});`,
		"padlock.test.js":              `test('padlock', () => { throw new Error('not asked for'); });`,
		"app/lock.test.js":             `test('inner lock', () => { throw new Error('not asked for'); });`,
		"app/my boat/name's o.test.js": `test('name', () => {});`,
	})
	o := g.run(jest{}, towpath.ReportJest, jestRun,
		units("app/[id]/page.test.js", "app/(shop)/cart+sum.test.js", "lock.test.js", "app/my boat/name's o.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "total: Error: expect")
	o.check(t, 2, towpath.OutcomePassed, "")
	o.check(t, 3, towpath.OutcomePassed, "")
	same(t, o.states(0), "passed id")
	same(t, o.states(1), "failed total")
}

func TestJestSuiteThatCannotLoadFailsWithItsError(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{
		"boat.test.js":  `test('floats', () => {}); test('steers', () => {});`,
		"empty.test.js": `const later = () => test('later', () => {});`,
		"stove.test.js": `const heat = (() => { throw new Error('no coal'); })(); test('burns', () => heat);`,
		"rope.test.js":  `const x = require('./no-such-rope.js'); test('holds', () => x);`,
	})
	o := g.run(jest{}, towpath.ReportJest, jestRun, units("boat.test.js", "empty.test.js", "stove.test.js", "rope.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "at least one test")
	o.check(t, 2, towpath.OutcomeFailed, "no coal")
	o.check(t, 3, towpath.OutcomeFailed, "no-such-rope")
	same(t, o.states(0), "passed floats", "passed steers")
	same(t, o.states(2))
}

const gateTest = `
describe('gate', () => {
  test.each([[50], [100]])('%i%% open', (n) => { expect(n % 50).toBe(0); });
  test.each(['%s', '%', '%%d', 'a › b'])('label %s', (s) => { expect(s).not.toBe(''); });
  test('same', () => {});
  test('same', () => { expect('shut').toBe('open'); });
  test('cost (a|b) [$5.00]', () => { expect(5).toBe(6); });
  test.skip('in winter', () => {});
  test.todo('paint');
});`

func TestJestEqualTitlesStayApart(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{"gate.test.js": gateTest})
	o := g.run(jest{}, towpath.ReportJest, jestRun, units("gate.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "and 1 more")
	r := o.reports[0]
	want := towpath.Counts{Total: 11, Passed: 7, Failed: 2, Skipped: 2}
	if r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
	if len(r.Failed) != 0 {
		t.Errorf("failed cases %q: one of them cannot be selected, so the whole file must run again", r.Failed)
	}
	for _, c := range r.Cases {
		switch c.Name {
		case "gate › same", "#2 gate › same":
			if c.Select != "" {
				t.Errorf("%q can be selected by %q, which selects two cases", c.Name, c.Select)
			}
		default:
			if c.Select == "" {
				t.Errorf("%q cannot be selected", c.Name)
			}
		}
	}
}

func TestJestRunsOnlyTheSelectedCasesAgain(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{"gate.test.js": gateTest})
	list := units("gate.test.js")
	list[0].Cases = []string{"gate cost (a|b) [$5.00]", "gate label a › b"}
	o := g.run(jest{}, towpath.ReportJest, jestRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "cost (a|b) [$5.00]")
	same(t, o.states(0), "failed gate › cost (a|b) [$5.00]", "passed gate › label a › b")

	list[0].Cases = []string{"gate was renamed"}
	o = g.run(jest{}, towpath.ReportJest, jestRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "did not run")
}

func TestJestExitInTheMiddleOfATestIsAFailure(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{
		"a.test.js": `test('before', () => {});`,
		"b.test.js": `test('sound', () => {}); test('leaves', () => { process.exit(0); }); test('never', () => {});`,
	})
	o := g.run(jest{}, towpath.ReportJest, jestRun, units("b.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, `"leaves"`)
	same(t, o.states(0), "passed sound", "unfinished leaves")
	o = g.run(jest{}, towpath.ReportJest, jestRun, units("a.test.js", "b.test.js"))
	o.check(t, 1, towpath.OutcomeFailed, `"leaves"`)
	if got := o.reports[0].Outcome; got != towpath.OutcomePassed && got != towpath.OutcomeUnclear {
		t.Errorf("the innocent file is %s", got)
	}
}

func TestJestHangKeepsWhatWasKnown(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{
		"spin.test.js": `test('sound', () => {}); test('spins', () => { process.stdout.write('now'); for (;;) {} }); test('never', () => {});`,
	})
	g.until = "now"
	o := g.run(jest{}, towpath.ReportJest, jestRun, units("spin.test.js"))
	o.check(t, 0, towpath.OutcomeTimedOut, `no output for 8s, in the middle of "spins"`)
	same(t, o.states(0), "passed sound", "unfinished spins")
}

func TestJestThatFailsWithoutAFailedCaseIsNoPass(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{
		"a.test.js":   `test('a', () => {});`,
		"b.test.js":   `test('b', () => {});`,
		"teardown.js": `module.exports = async () => { throw new Error('the crane fell'); };`,
	})
	run := `node_modules/.bin/jest --globalTeardown=./teardown.js --maxWorkers=1 --runTestsByPath "$@"`
	o := g.run(jest{}, towpath.ReportJest, run, units("a.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "exit status 1")
	same(t, o.states(0), "passed a")
	o = g.run(jest{}, towpath.ReportJest, run, units("a.test.js", "b.test.js"))
	o.check(t, 0, towpath.OutcomeUnclear, "exit status 1")
	o.check(t, 1, towpath.OutcomeUnclear, "exit status 1")
}

func TestJestFileThatIsGoneAndJestThatIsMissingAreNamed(t *testing.T) {
	t.Parallel()
	g := jestRig(t, map[string]string{"a.test.js": `test('a', () => {});`})
	o := g.run(jest{}, towpath.ReportJest, jestRun, units("a.test.js", "gone.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "gone.test.js")

	bare := rig{t: t, dir: project(t, map[string]string{"package.json": "{}", "a.test.js": ""})}
	o = bare.run(jest{}, towpath.ReportJest, `npx --no-install jest --runTestsByPath "$@"`, units("a.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "jest is not installed here: install")
	o = bare.run(jest{}, towpath.ReportJest, jestRun, units("a.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "jest is not installed here: install")
}
