// Towpath's reporter for node --test: appends what happens to the file named by $TOWPATH_EVENTS, one JSON object a
// line, as it happens. It hides itself from the processes that the tests start.
import fs from 'node:fs';
import path from 'node:path';

const limit = 16 * 1024;
const cut = (s) => (s.length > limit ? s.slice(0, limit) + '…' : s);
const events = process.env.NODE_TEST_CONTEXT ? '' : process.env.TOWPATH_EVENTS;
if (events) {
  // What the tests' own processes get is undone there, by the helper that tells of process.exit.
  process.env.NODE_OPTIONS = `${process.env.TOWPATH_NODE_OPTIONS || ''} --require=${process.env.TOWPATH_NODE_CHILD}`.trim();
  process.env.TOWPATH_CHILD_EVENTS = events;
  delete process.env.TOWPATH_EVENTS;
  delete process.env.TOWPATH_NODE_CHILD;
}

function tell(event) {
  if (events) fs.appendFileSync(events, JSON.stringify(event) + '\n');
}

// A file's own process is reported as a test too, named by the file.
const wraps = (d) => d.nesting === 0 && d.file !== undefined && path.resolve(d.name) === d.file;

// Names repeat, and the chain of declarations may be wrong where suites run side by side: the place tells tests apart.
const identity = (d) => `${d.nesting}:${d.line}:${d.column}:${d.name}`;

function failure(error) {
  if (!error) return { message: '', detail: '' };
  const cause = error.cause ?? error;
  const message = (cause && (cause.message || cause.stack)) || String(cause);
  return { message: cut(String(message)), detail: cut(String((cause && cause.stack) || message)) };
}

// The line that names the cause in what a dying process wrote to its standard error.
function causeIn(stderr) {
  const lines = stderr.split('\n').map((l) => l.trim());
  return lines.find((l) => /^(Uncaught )?[A-Za-z]*(Error|Exception)\b.*:/.test(l)) || lines.find((l) => l && !l.startsWith('at ')) || '';
}

class File {
  constructor(name) {
    this.name = name;
    this.declared = []; // the chain of tests being declared, by nesting
    this.reported = []; // the chain of tests being reported
    this.stderr = '';
    this.failed = false;
    this.fault = null;
  }

  chain(list, d) {
    list.length = d.nesting;
    for (let i = 0; i < d.nesting; i++) list[i] ??= '?';
    list[d.nesting] = d.name;
    return [...list];
  }

  enqueue(d) {
    const trail = this.declared.slice(0, d.nesting);
    for (let i = 0; i < d.nesting; i++) trail[i] ??= '?';
    tell({ t: 'list', file: this.name, cases: [{ id: identity(d), path: [...trail, d.name] }] });
  }

  dequeue(d) {
    tell({ t: 'start', file: this.name, id: identity(d), path: this.chain(this.declared, d) });
  }

  settle(d, passed) {
    const trail = this.chain(this.reported, d);
    const { message, detail } = passed ? { message: '', detail: '' } : failure(d.details?.error);
    const skip = d.skip !== undefined && d.skip !== false;
    const todo = d.todo !== undefined && d.todo !== false;
    const kind = d.details?.error?.failureType;
    if (d.details?.type === 'suite') {
      tell({ t: 'drop', file: this.name, id: identity(d), path: trail });
      // A suite is no case; but a hook of it that fails fails nothing else.
      if (!passed && !todo && kind !== 'subtestsFailed') {
        this.failed = true;
        this.fault ??= { message: `${trail.join(' > ')}: ${message}`, detail };
      }
      return;
    }
    const state = skip || todo ? 'skipped' : passed ? 'passed' : 'failed';
    const reason = skip ? d.skip : todo ? d.todo : '';
    const c = {
      t: 'case', file: this.name, id: identity(d), path: trail, state, ms: d.details?.duration_ms || 0,
      message: typeof reason === 'string' && reason ? reason : state === 'skipped' && todo ? 'todo' : message, detail: state === 'skipped' ? '' : detail,
    };
    if (state === 'failed') this.failed = true;
    tell(c);
  }

  whole(d, passed) {
    // The process of the file itself: it failed before or after its tests, or has none.
    const { message, detail } = passed ? { message: '', detail: '' } : failure(d.details?.error);
    const cause = passed ? '' : causeIn(this.stderr);
    const c = {
      t: 'case', file: this.name, id: 'file', path: [path.relative(process.cwd(), this.name)],
      state: passed ? (d.skip ? 'skipped' : 'passed') : 'failed', ms: d.details?.duration_ms || 0,
      message: cause ? cut(cause) : message, detail: cut(cause ? this.stderr : detail),
    };
    if (!passed) {
      this.failed = true;
      this.fault = { message: c.message, detail: '' };
    }
    tell(c);
  }
}

export default async function* towpath(source) {
  const files = new Map();
  const ended = new Map();
  const of = (name) => {
    let f = files.get(name);
    if (!f) files.set(name, (f = new File(name)));
    return f;
  };
  // The result of a file's process comes after its completion, or never, if its tests tell all.
  const close = (f) => {
    const ms = ended.get(f.name);
    if (ms === undefined) return;
    ended.delete(f.name);
    tell({ t: 'end', file: f.name, state: f.failed ? 'failed' : 'passed', ms, message: f.fault?.message || '', detail: f.fault?.detail || '' });
  };
  for await (const { type, data: d } of source) {
    const f = d?.file !== undefined ? of(path.resolve(d.file)) : null; // relative for output in newer versions
    switch (type) {
      case 'test:enqueue':
        if (f && !wraps(d)) f.enqueue(d);
        break;
      case 'test:dequeue':
        if (!f) break;
        if (wraps(d)) {
          for (const other of files.values()) if (other !== f) close(other);
          tell({ t: 'file', file: f.name });
        } else {
          f.dequeue(d);
        }
        break;
      case 'test:start':
        if (f && !wraps(d)) f.chain(f.reported, d);
        break;
      case 'test:complete':
        if (!f) break;
        if (wraps(d)) ended.set(f.name, d.details?.duration_ms || 0);
        break;
      case 'test:pass':
      case 'test:fail':
        if (!f) break;
        if (wraps(d)) f.whole(d, type === 'test:pass');
        else f.settle(d, type === 'test:pass');
        break;
      case 'test:stdout':
      case 'test:stderr':
        if (f) {
          if (type === 'test:stderr' && f.stderr.length < limit) f.stderr += d.message;
          tell({ t: 'text', file: f.name, text: d.message });
        }
        break;
      case 'test:diagnostic':
        break;
    }
    yield '\x1e';
  }
  for (const f of files.values()) close(f);
  tell({ t: 'over' });
  yield '\x1e';
}
