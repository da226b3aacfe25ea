// Towpath's Jest reporter: appends what happens to the file named by $TOWPATH_EVENTS, one JSON object a line, as it
// happens, so that what was known survives a process that hangs or dies.
'use strict';
const fs = require('node:fs');

const limit = 16 * 1024;
const cut = (s) => (s.length > limit ? s.slice(0, limit) + '…' : s);
const states = { passed: 'passed', failed: 'failed', pending: 'skipped', todo: 'skipped', skipped: 'skipped', disabled: 'skipped', focused: 'passed' };

class TowpathReporter {
  constructor() {
    this.file = process.env.TOWPATH_EVENTS;
  }

  tell(event) {
    if (!this.file) return;
    fs.appendFileSync(this.file, JSON.stringify(event) + '\n');
    process.stdout.write('\x1e');
  }

  one(file, r) {
    const detail = (r.failureMessages || []).join('\n\n');
    return {
      t: 'case', file, path: [...r.ancestorTitles, r.title], full: r.fullName,
      state: states[r.status] || 'failed', ms: r.duration || 0, message: cut(detail), detail: cut(detail),
    };
  }

  onTestFileStart(test) {
    this.tell({ t: 'file', file: test.path });
  }

  onTestCaseStart(test, info) {
    this.tell({ t: 'start', file: test.path, path: [...info.ancestorTitles, info.title], full: info.fullName });
  }

  onTestCaseResult(test, r) {
    this.tell(this.one(test.path, r));
  }

  onTestFileResult(test, result) {
    const said = (result.console || []).map((c) => (c.type ? `${c.type}: ` : '') + c.message + '\n').join('');
    if (said) this.tell({ t: 'text', file: test.path, text: cut(said) });
    const error = result.testExecError;
    let message = '';
    if (error) {
      message = error.message || error.stack || String(error);
      if (error.code === 'ERR_WORKER_PROCESS' || !message.trim()) message = 'the test process ended: ' + message;
    }
    const perf = result.perfStats || {};
    this.tell({
      t: 'end', file: test.path,
      state: error || result.numFailingTests > 0 || result.failureMessage ? 'failed' : result.skipped ? 'skipped' : 'passed',
      ms: perf.runtime || (perf.end || 0) - (perf.start || 0),
      message: cut(message), detail: error ? cut(result.failureMessage || '') : '',
      cases: result.testResults.map((r) => this.one(test.path, r)),
    });
  }

  onRunComplete() {
    this.tell({ t: 'over' });
  }
}

module.exports = TowpathReporter;
