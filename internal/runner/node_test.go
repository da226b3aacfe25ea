package runner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

const nodeRun = `node --test --test-concurrency=1 "$@"`

func nodeRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	needTool(t, "node", "install Node.js 20 or later")
	files["package.json"] = `{"private": true, "type": "module"}`
	return rig{t: t, dir: project(t, files)}
}

func TestNodeTellsSuitesFromTests(t *testing.T) {
	t.Parallel()
	g := nodeRig(t, map[string]string{"dock.test.js": `
import assert from 'node:assert';
import { describe, it, test } from 'node:test';
describe('dock', () => {
  describe('gate', () => { it('opens', () => {}); it('shuts', () => assert.equal('open', 'shut')); });
  it('opens', () => {});
  it.skip('in winter', () => assert.fail('frozen'));
  it.todo('paint', () => assert.fail('not painted'));
});
test('parent', async (t) => {
  await t.test('good', () => {});
  await t.test('bad', () => assert.fail('leak'));
});
describe('side by side', { concurrency: true }, () => {
  describe('left', { concurrency: true }, () => { it('waits', () => new Promise((r) => setTimeout(r, 60))); it('same', () => {}); });
  describe('right', { concurrency: true }, () => { it('waits', () => new Promise((r) => setTimeout(r, 30))); it('same', () => {}); });
  describe('empty', () => {});
});
for (let i = 0; i < 3; i++) test('loop', () => {});
test('<gate> & "lock"', () => {});`})
	o := g.run(node{}, towpath.ReportNode, nodeRun, units("dock.test.js"))
	o.check(t, 0, towpath.OutcomeFailed, "and 2 more")
	same(t, o.states(0), "passed dock > gate > opens", "failed dock > gate > shuts", "passed dock > opens", "skipped dock > in winter",
		"skipped dock > paint", "failed parent", "passed parent > good", "failed parent > bad", `passed <gate> & "lock"`,
		"passed side by side > left > waits", "passed side by side > left > same", "passed side by side > right > waits", "passed side by side > right > same",
		"passed loop", "passed #2 loop", "passed #3 loop")
}

func TestNodeFileThatCannotLoadFailsWithItsCause(t *testing.T) {
	t.Parallel()
	g := nodeRig(t, map[string]string{
		"test/boat.test.js":  `import test from 'node:test'; test('floats', () => {}); test('steers', () => {});`,
		"test/rope.test.js":  `import test from 'node:test'; import { splice } from './no-such-rope.js'; test('holds', () => splice());`,
		"test/stove.test.js": `import test from 'node:test'; throw new Error('no coal'); test('burns', () => {});`,
		"test/plain.test.js": `console.log('no tests here');`,
		"test/late.test.js":  `import test from 'node:test'; test('fine', () => {}); process.on('exit', () => { process.exitCode = 3; });`,
		"test/hook.test.js":  `import { before, describe, it } from 'node:test'; describe('s', () => { before(() => { throw new Error('bent'); }); it('holds', () => {}); });`,
	})
	o := g.run(node{}, towpath.ReportNode, nodeRun,
		units("test/boat.test.js", "test/rope.test.js", "test/stove.test.js", "test/plain.test.js", "test/late.test.js", "test/hook.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "no-such-rope")
	o.check(t, 2, towpath.OutcomeFailed, "no coal")
	o.check(t, 3, towpath.OutcomePassed, "")
	o.check(t, 4, towpath.OutcomeFailed, "")
	o.check(t, 5, towpath.OutcomeFailed, "bent")
	same(t, o.states(1), "failed test/rope.test.js")
	same(t, o.states(2), "failed test/stove.test.js")
	same(t, o.states(3), "passed test/plain.test.js")
	if !strings.Contains(o.text(3), "no tests here") {
		t.Errorf("the file's output is not with it: %q", o.text(3))
	}
}

func TestNodeExitInTheMiddleOfATestIsAFailure(t *testing.T) {
	t.Parallel()
	g := nodeRig(t, map[string]string{
		"a.test.js":     `import test from 'node:test'; test('before', () => {});`,
		"b.test.js":     `import test from 'node:test'; test('sound', () => {}); test('leaves', () => { process.exit(0); }); test('never', () => {});`,
		"c.test.js":     `import test from 'node:test'; test('sound', () => {}); test('dies', () => { process.abort(); });`,
		"d.test.js":     `import test from 'node:test'; test('sound', () => {}); test('leaves', async () => { await new Promise((r) => setTimeout(r, 200)); process.exit(0); }); test('never', () => {});`,
		"plain.test.js": `process.exit(0);`,
	})
	o := g.run(node{}, towpath.ReportNode, nodeRun, units("a.test.js", "b.test.js", "c.test.js", "d.test.js", "plain.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeFailed, "process.exit(0)")
	o.check(t, 2, towpath.OutcomeFailed, "")
	o.check(t, 3, towpath.OutcomeFailed, `process.exit(0) was called in the middle of "leaves"`)
	o.check(t, 4, towpath.OutcomePassed, "")
	same(t, o.states(3), "passed sound", "unfinished leaves", "unfinished never")
}

func TestNodeHangKeepsWhatWasKnown(t *testing.T) {
	t.Parallel()
	g := nodeRig(t, map[string]string{
		"first.test.js": `import test from 'node:test'; test('first', () => {});`,
		"hang.test.js":  `import test from 'node:test'; test('sound', () => {}); test('hangs', () => { return new Promise((r) => setTimeout(r, 1e8)); }); test('never', () => {});`,
		"open.test.js": `import http from 'node:http'; import test from 'node:test';
test('listens', (t, done) => { http.createServer().listen(0, '127.0.0.1', done); });
test('adds', () => {});`,
		"last.test.js": `import test from 'node:test'; test('last', () => {});`,
	})
	g.when = hangs
	o := g.run(node{}, towpath.ReportNode, nodeRun, units("first.test.js", "hang.test.js", "last.test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	o.check(t, 1, towpath.OutcomeTimedOut, `in the middle of "hangs"`)
	o.check(t, 2, towpath.OutcomeUnclear, "had not begun")
	same(t, o.states(1), "passed sound", "unfinished hangs", "unfinished never")
	g.when, g.until = nil, "adds"
	o = g.run(node{}, towpath.ReportNode, nodeRun, units("open.test.js"))
	o.check(t, 0, towpath.OutcomeTimedOut, "no output for 8s")
	same(t, o.states(0), "passed listens", "passed adds")
}

func TestNodeHidesItsReporterFromWhatTestsStart(t *testing.T) {
	t.Parallel()
	g := nodeRig(t, map[string]string{
		"a [1].test.js": `import test from 'node:test'; import assert from 'node:assert';
test('clean', () => { assert.equal(process.env.NODE_OPTIONS, '--no-warnings'); assert.equal(process.env.TOWPATH_EVENTS, undefined); });`,
	})
	g.env = []string{"NODE_OPTIONS=--no-warnings"}
	g.scratch = project(t, map[string]string{"my scratch/x": ""}) + "/my scratch"
	o := g.run(node{}, towpath.ReportNode, nodeRun, units("a [1].test.js"))
	o.check(t, 0, towpath.OutcomePassed, "")
	same(t, o.states(0), "passed clean")
}

func TestNodePathsAreEscapedWhereNodeTakesPatterns(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v20.20.2\n": "app/[id]/page.test.js", "v22.1.0\n": `app/[[]id]/page.test.js`} {
		s := Spec{Job: &towpath.Job{Run: nodeRun}, Units: units("app/[id]/page.test.js"), Base: Command{Argv: []string{"bash", "-c", nodeRun, "towpath", "app/[id]/page.test.js"}}}
		s.Exec = func(context.Context, Command, time.Duration) ([]byte, []byte, int, error) {
			return []byte(version), nil, 0, nil
		}
		c, err := literalPaths(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Argv[4]; got != want {
			t.Errorf("Node %s is given %s, want %s", version, got, want)
		}
	}
}
