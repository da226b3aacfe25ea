// Loaded by Towpath into each process that node --test starts for a test file. Node takes a file that calls
// process.exit(0) in the middle of a test for a passing one and loses its results; this tells of such a call.
'use strict';
const events = process.env.TOWPATH_CHILD_EVENTS;
if (events && process.env.NODE_TEST_CONTEXT) {
  const theirs = process.env.TOWPATH_NODE_OPTIONS || '';
  if (theirs) process.env.NODE_OPTIONS = theirs;
  else delete process.env.NODE_OPTIONS;
  delete process.env.TOWPATH_CHILD_EVENTS;
  delete process.env.TOWPATH_NODE_OPTIONS;
  const file = process.argv[1];
  const leave = process.reallyExit;
  process.reallyExit = function (code) {
    if (!code && process.moduleLoadList.includes('NativeModule test')) {
      require('node:fs').appendFileSync(events, JSON.stringify({ t: 'exit', file }) + '\n');
    }
    return leave.apply(this, arguments);
  };
}
