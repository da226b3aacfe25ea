"""Appends what happens to each test, one JSON object a line, to the file that TOWPATH_PYTEST_EVENTS names.

Loaded by PYTEST_PLUGINS for one run. It takes itself out of the environment, so that programs and other pytest runs that
the tests start see what they would see without it.
"""

import json
import os
import sys

_TEXT = 32 * 1024
_TICK = b"\x1e"

try:
    _OUT = os.dup(1)  # before pytest captures it
except OSError:
    _OUT = -1


def _clip(text):
    text = str(text)
    if len(text) <= _TEXT:
        return text
    half = _TEXT // 2
    return text[:half] + "\n... left out ...\n" + text[-half:]


def _leave_environment():
    path = os.environ.pop("TOWPATH_PYTEST_EVENTS", None)
    here = os.path.dirname(os.path.abspath(__file__))
    for name, mine, sep in (("PYTEST_PLUGINS", __name__, ","), ("PYTHONPATH", here, os.pathsep)):
        rest = [p for p in os.environ.get(name, "").split(sep) if p != mine]
        if rest and rest != [""]:
            os.environ[name] = sep.join(rest)
        else:
            os.environ.pop(name, None)
    sys.path[:] = [p for p in sys.path if p != here]
    return path


class _Recorder:
    def __init__(self, config, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self.pid = os.getpid()
        self.root = str(getattr(config, "rootpath", None) or getattr(config, "rootdir", None) or os.getcwd())
        self.here = os.getcwd()

    def put(self, event, **fields):
        if os.getpid() != self.pid:  # a fork made by a test
            return
        fields["e"] = event
        data = (json.dumps(fields) + "\n").encode("ascii")
        while data:
            data = data[os.write(self.fd, data):]
        if _OUT >= 0:
            try:
                os.write(_OUT, _TICK)
            except OSError:
                pass

    def file(self, nodeid):
        return os.path.normpath(os.path.join(self.root, nodeid.split("::", 1)[0]))

    def case(self, nodeid):
        path, _, rest = nodeid.partition("::")
        path = self.file(nodeid)
        select = os.path.relpath(path, self.here)
        if rest:
            select += "::" + rest
        return {"id": nodeid, "file": path, "name": rest, "select": select}

    def pytest_collectreport(self, report):
        if report.failed:
            self.put("collect_error", text=_clip(report.longrepr), message=_message(report), **self.case(report.nodeid))
        elif report.skipped:
            self.put("collect_skip", message=_message(report), **self.case(report.nodeid))

    def pytest_collection_finish(self, session):
        self.put("items", items=[self.case(item.nodeid) for item in getattr(session, "items", [])])

    def pytest_runtest_logstart(self, nodeid, location):
        self.put("start", **self.case(nodeid))

    def pytest_runtest_logreport(self, report):
        text = ""
        if report.outcome == "failed":
            text = str(report.longrepr)
            for title, content in report.sections:
                text += "\n--- {} ---\n{}".format(title, content)
        self.put(
            "report",
            when=report.when,
            outcome=report.outcome,
            seconds=report.duration,
            xfail=getattr(report, "wasxfail", None),
            message=_message(report),
            text=_clip(text),
            **self.case(report.nodeid)
        )

    def pytest_runtest_logfinish(self, nodeid, location):
        self.put("finish", **self.case(nodeid))

    def pytest_internalerror(self, excrepr):
        self.put("internal", text=_clip(excrepr), message=_last(str(excrepr)))

    def pytest_unconfigure(self, config):
        self.put("over")


def _message(report):
    longrepr = report.longrepr
    if longrepr is None:
        return ""
    if isinstance(longrepr, tuple) and len(longrepr) == 3:  # a skip: file, line, reason
        return _clip(longrepr[2])
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None and getattr(crash, "message", ""):
        return _clip(crash.message)
    return _last(str(longrepr))


def _last(text):
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    if errors:
        return _clip(errors[-1])
    return _clip(lines[-1]) if lines else ""


def pytest_configure(config):
    path = _leave_environment()
    if not path or hasattr(config, "workerinput"):
        return
    # A file that cannot be imported must not keep the others from running.
    if hasattr(config.option, "continue_on_collection_errors"):
        config.option.continue_on_collection_errors = True
    config.pluginmanager.register(_Recorder(config, path), "towpath-recorder")
