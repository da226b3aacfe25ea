package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

const vitestRun = `node_modules/.bin/vitest run --no-file-parallelism "$@"`

func vitestRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	files["package.json"] = `{"private": true, "type": "module"}`
	dir := project(t, files)
	modules(t, dir, "vitest")
	return rig{t: t, dir: dir}
}

func TestVitestRunsExactlyTheFilesAskedFor(t *testing.T) {
	t.Parallel()
	g := vitestRig(t, map[string]string{
		"app/[id]/page.test.js":       `import { test } from 'vitest'; test('id', () => {});`,
		"app/(shop)/cart+sum.test.js": `import { expect, test } from 'vitest'; test('total', () => { expect(2 + 2).toBe(5); });`,
		"lock.test.js":                `import { test } from 'vitest'; test('lock', () => { console.log('turned'); });`,
		"padlock.test.js":             `import { test } from 'vitest'; test('padlock', () => { throw new Error('not asked for'); });`,
		"app/lock.test.js":            `import { test } from 'vitest'; test('inner lock', () => { throw new Error('not asked for'); });`,
	})
	o := g.run(vitest{}, towpath.ReportVitest, vitestRun, units("lock.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	same(t, o.states(0), "passed lock")
	if o.exit != 0 {
		t.Errorf("exit %d: files that were not asked for ran too", o.exit)
	}
	o = g.run(vitest{}, towpath.ReportVitest, vitestRun, units("app/[id]/page.test.js", "app/(shop)/cart+sum.test.js", "lock.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "total: expected 4 to be 5")
	o.check(t, 2, towpath.OutcomePassed, "")
}

func TestVitestUnhandledErrorFailsTheFileThatCausedItAndNoCase(t *testing.T) {
	t.Parallel()
	g := vitestRig(t, map[string]string{
		"boat.test.js": `import { test } from 'vitest'; test('floats', () => {});`,
		"pump.test.js": `import { test } from 'vitest';
const start = () => new Promise((_, no) => setTimeout(() => no(new Error('the pump seized')), 20));
test('starts', () => { start(); });
test('waits', async () => { await new Promise((r) => setTimeout(r, 200)); });`,
	})
	o := g.run(vitest{}, towpath.ReportVitest, vitestRun, units("boat.test.js", "pump.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "unhandled error: the pump seized")
	same(t, o.states(1), "passed starts", "passed waits")
}

func TestVitestFileThatCannotLoadFailsWithItsError(t *testing.T) {
	t.Parallel()
	g := vitestRig(t, map[string]string{
		"boat.test.js":  `import { test } from 'vitest'; test('floats', () => {});`,
		"empty.test.js": `export const later = 1;`,
		"stove.test.js": `import { test } from 'vitest'; throw new Error('no coal');`,
		"rope.test.js":  `import { test } from 'vitest'; import './no-such-rope.js'; test('holds', () => {});`,
		"hook.test.js":  `import { beforeAll, describe, test } from 'vitest'; describe('hook', () => { beforeAll(() => { throw new Error('bent'); }); test('holds', () => {}); });`,
	})
	o := g.run(vitest{}, towpath.ReportVitest, vitestRun, units("boat.test.js", "empty.test.js", "stove.test.js", "rope.test.js", "hook.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "no test suite found")
	o.check(t, 2, towpath.OutcomeFailed, "no coal")
	o.check(t, 3, towpath.OutcomeFailed, "no-such-rope")
	o.check(t, 4, towpath.OutcomeFailed, "bent")
}

const vitestGate = `import { describe, expect, test } from 'vitest';
describe('gate', () => {
  test.each([[50], [100]])('%i%% open', (n) => { expect(n % 50).toBe(0); });
  test('b › c', () => {});
  test('same', () => {});
  test('same', () => { expect('shut').toBe('open'); });
  test('cost (a|b) [$5.00]', () => { expect(5).toBe(6); });
  test.skip('in winter', () => {});
  test.todo('paint');
});`

func TestVitestRunsOnlyTheSelectedCasesAgain(t *testing.T) {
	t.Parallel()
	g := vitestRig(t, map[string]string{"gate.test.js": vitestGate})
	list := units("gate.test.js")
	o := g.run(vitest{}, towpath.ReportVitest, vitestRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "and 1 more")
	want := towpath.Counts{Total: 8, Passed: 4, Failed: 2, Skipped: 2}
	if o.reports[0].Counts != want || len(o.reports[0].Failed) != 0 {
		t.Errorf("counts %+v failed %q, want %+v and none", o.reports[0].Counts, o.reports[0].Failed, want)
	}
	list[0].Cases = []string{"gate cost (a|b) [$5.00]", "gate b › c"}
	o = g.run(vitest{}, towpath.ReportVitest, vitestRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "cost (a|b) [$5.00]")
	same(t, o.states(0), "failed gate > cost (a|b) [$5.00]", "passed gate > b › c")

	list[0].Cases = []string{"gate was renamed"}
	o = g.run(vitest{}, towpath.ReportVitest, vitestRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "did not run")
}

func TestVitestExitAndHangInATestNameTheUnfinishedCases(t *testing.T) {
	t.Parallel()
	g := vitestRig(t, map[string]string{
		"exit.test.js": `import { test } from 'vitest'; test('sound', () => {}); test('leaves', () => { process.exit(0); }); test('never', () => {});`,
		"abrt.test.js": `import { test } from 'vitest'; test('sound', () => {}); test('dies', async () => { process.kill(process.pid, 'SIGKILL'); await new Promise(() => {}); });`,
		"hang.test.js": `import { test } from 'vitest'; test('sound', () => {}); test('hangs', async () => { await new Promise(() => {}); }, 1e8); test('never', () => {});`,
	})
	o := g.run(vitest{}, towpath.ReportVitest, vitestRun, units("exit.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "process.exit")
	o = g.run(vitest{}, towpath.ReportVitest, vitestRun, units("abrt.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "unexpectedly")
	// Vitest passes progress on in groups and may keep the last one back: what is sure is which cases there are.
	g.when = func(f *fileLog, _ []string) bool { return f.began && len(f.known) == 3 }
	o = g.run(vitest{}, towpath.ReportVitest, vitestRun, units("hang.test.js"))
	o.check(t, 0, towpath.OutcomeTimedOut, "no output for 8s")
	if c := o.reports[0].Counts; c.Total != 3 || c.Unfinished < 2 {
		t.Errorf("counts %+v, want 3 cases of which 2 or 3 are unfinished", c)
	}
}
