// Towpath's Vitest reporter: appends what happens to the file named by $TOWPATH_EVENTS, one JSON object a line, as it
// happens. It also keeps Vitest to exactly the files asked for, which Vitest itself takes as parts of names.
import fs from 'node:fs';

const limit = 16 * 1024;
const cut = (s) => (s.length > limit ? s.slice(0, limit) + '…' : s);
const events = process.env.TOWPATH_EVENTS;
const asked = process.env.TOWPATH_ASKED ? new Set(JSON.parse(process.env.TOWPATH_ASKED)) : null;

function tell(event) {
  if (!events) return;
  fs.appendFileSync(events, JSON.stringify(event) + '\n');
  process.stdout.write('\x1e');
}

const text = (e) => ((e && (e.message || e.stack)) || String(e)) + (e?.cause ? `: ${text(e.cause)}` : '');

function whole(e) {
  const parts = [`${e?.name || 'Error'}: ${text(e)}`];
  if (e?.diff) parts.push(e.diff);
  for (const f of e?.stacks || []) parts.push(`    at ${f.method || ''} (${f.file}:${f.line}:${f.column})`);
  if (!e?.stacks?.length && e?.stack) parts.push(e.stack);
  return cut(parts.join('\n'));
}

function describe(test) {
  const path = [test.name];
  for (let p = test.parent; p && p.type === 'suite'; p = p.parent) path.unshift(p.name);
  const full = path.join(' ');
  if (test.project?.name) path.unshift(`|${test.project.name}|`);
  return { file: test.module.moduleId, id: test.id, path, full };
}

function settled(test) {
  const result = test.result();
  const errors = result.errors || [];
  return {
    t: 'case', ...describe(test),
    state: result.state === 'pending' ? 'unfinished' : result.state,
    ms: test.diagnostic()?.duration || 0,
    message: errors.length ? cut(text(errors[0])) : '', detail: errors.map(whole).join('\n\n'),
  };
}

export default class TowpathReporter {
  modules = new Map(); // files by the id that the log of a test begins with
  ended = new Set();

  onInit(vitest) {
    if (!asked) return;
    for (const owner of [vitest.specifications, vitest]) {
      const relevant = owner?.getRelevantTestSpecifications;
      if (typeof relevant !== 'function') continue;
      owner.getRelevantTestSpecifications = async function (...args) {
        const all = await relevant.apply(this, args);
        const exact = all.filter((s) => asked.has(s.moduleId));
        return exact.length ? exact : all;
      };
    }
  }

  onTestModuleStart(module) {
    tell({ t: 'file', file: module.moduleId });
  }

  onTestModuleCollected(module) {
    const cases = [];
    for (const test of module.children.allTests()) cases.push(describe(test));
    tell({ t: 'list', file: module.moduleId, cases });
  }

  onTestCaseReady(test) {
    tell({ t: 'start', ...describe(test) });
  }

  onTestCaseResult(test) {
    tell(settled(test));
  }

  onUserConsoleLog(log) {
    const file = log.taskId && log.taskId.split('_')[0];
    const module = file && this.modules.get(file);
    tell({ t: 'text', file: module || '', text: log.content });
  }

  onTestModuleQueued(module) {
    this.modules.set(module.id, module.moduleId);
  }

  onTestModuleEnd(module) {
    this.ended.add(module.moduleId);
    const errors = [...module.errors()];
    for (const suite of module.children.allSuites()) errors.push(...suite.errors());
    const diagnostic = module.diagnostic();
    tell({
      t: 'end', file: module.moduleId,
      state: errors.length ? 'failed' : module.state(),
      ms: (diagnostic.duration || 0) + (diagnostic.setupDuration || 0) + (diagnostic.collectDuration || 0),
      message: errors.length ? cut(text(errors[0])) : '', detail: errors.map(whole).join('\n\n'),
    });
  }

  onTestRunEnd(modules, unhandled) {
    for (const module of modules || []) {
      // Vitest 3 says nothing of a file that could not be loaded until the end.
      if (!this.ended.has(module.moduleId) && !['queued', 'pending'].includes(module.state())) this.onTestModuleEnd(module);
    }
    for (const e of unhandled || []) {
      tell({ t: 'unhandled', file: e?.VITEST_TEST_PATH || '', message: text(e), detail: whole(e) });
    }
    tell({ t: 'over' });
  }
}
