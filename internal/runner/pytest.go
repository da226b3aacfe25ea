package runner

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

//go:embed towpath_pytest.py
var pytestPlugin []byte

// pytestModule is the name under which the plugin is imported.
const pytestModule = "towpath_pytest"

// pytest is the runner of pytest. An atom is a test file, a folder or a node id. A plugin that is given by the environment
// writes down what happens to each test, so nothing depends on what pytest prints.
type pytest struct{}

func (pytest) Begin(ctx context.Context, s Spec) (Command, Reading, error) {
	plugins, err := pytestPluginDir(s.Scratch)
	if err != nil {
		return Command{}, nil, err
	}
	c, selected := pytestArgs(s)
	c, note, err := pytestCommand(ctx, s, c)
	if err != nil {
		return Command{}, nil, err
	}
	r, err := newPytestReading(s, selected)
	if err != nil {
		return Command{}, nil, err
	}
	if note != "" {
		s.Events.Output(solo(s.Units), []byte(note))
	}
	// The user's own PYTHONPATH and PYTEST_PLUGINS stay in force, and only the process itself knows them.
	const wrap = `PYTHONPATH="$1${PYTHONPATH:+:$PYTHONPATH}" PYTEST_PLUGINS="$2${PYTEST_PLUGINS:+,$PYTEST_PLUGINS}"
export PYTHONPATH PYTEST_PLUGINS
shift 2
exec "$@"`
	c.Argv = slices.Concat([]string{"sh", "-c", wrap, "towpath", plugins, pytestModule}, c.Argv)
	c.Env = append(slices.Clip(c.Env), "TOWPATH_PYTEST_EVENTS="+r.events.name())
	return c, r, nil
}

// pytestPluginDir is a folder in scratch that holds the plugin and nothing else.
func pytestPluginDir(scratch string) (string, error) {
	dir := filepath.Join(scratch, "pytest-plugin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of the pytest plugin: %w", err)
	}
	path := filepath.Join(dir, pytestModule+".py")
	if have, err := os.ReadFile(path); err == nil && string(have) == string(pytestPlugin) {
		return dir, nil
	}
	tmp, err := os.CreateTemp(scratch, pytestModule)
	if err != nil {
		return "", fmt.Errorf("write the pytest plugin: %w", err)
	}
	_, err = tmp.Write(pytestPlugin)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write the pytest plugin: %w", err), os.Remove(tmp.Name()))
	}
	return dir, nil
}

// pytestArgs puts node ids in place of the names of units of which only some cases are to run. Each is one argument.
func pytestArgs(s Spec) (c Command, selected bool) {
	var args []string
	size := 0
	for _, u := range s.Units {
		if len(u.Cases) == 0 {
			args = append(args, u.Name)
			continue
		}
		selected = true
		for _, id := range u.Cases {
			args = append(args, id)
			size += len(id) + 1
		}
	}
	if !selected || size > 96<<10 {
		return s.Base, false
	}
	return withArgs(s, args)
}

// pytestLookup prints the first Python that has pytest: of the virtual environment that is active or lies in the workspace,
// the one that run names ($1), and others that are common.
const pytestLookup = `seen=
find="import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"
for p in ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} .venv/bin/python venv/bin/python "$1" python3 python /usr/bin/python3 /usr/local/bin/python3; do
	case $seen in *" $p "*) continue ;; esac
	seen="$seen $p "
	if command -v "$p" >/dev/null 2>&1 && "$p" -c "$find" >/dev/null 2>&1; then echo "$p"; exit 0; fi
done
exit 1`

// pytestCommand replaces the Python of a plain "python3 -m pytest" by one that has pytest, if that one has none. What is
// not so plain runs as it stands.
func pytestCommand(ctx context.Context, s Spec, c Command) (with Command, note string, err error) {
	words, simple := plainWords(s.Job.Run)
	if !simple || len(s.Job.Argv) > 0 || len(words) < 3 || !strings.HasPrefix(words[0], "python") || words[1] != "-m" || words[2] != "pytest" {
		return c, "", nil
	}
	at := slices.Index(words, passed)
	shell := slices.Index(c.Argv, s.Job.Run)
	if at < 0 || shell < 0 || shell+2 > len(c.Argv) {
		return c, "", nil
	}
	python, err := pytestPython(ctx, s, words[0])
	if err != nil {
		return c, "", err
	}
	if python != words[0] {
		note = fmt.Sprintf("towpath: running the tests with %s, which has pytest\n", python)
	}
	c.Argv = slices.Concat([]string{python}, words[1:at], c.Argv[shell+2:], words[at+1:])
	return c, note, nil
}

// pytestPython looks once per session and workspace.
func pytestPython(ctx context.Context, s Spec, named string) (string, error) {
	memo := filepath.Join(s.Scratch, "pytest-python")
	key := s.Dir + "\n" + named + "\n"
	if data, err := os.ReadFile(memo); err == nil {
		if python, ok := strings.CutPrefix(string(data), key); ok {
			return python, nil
		}
	}
	if s.Exec == nil {
		return named, nil
	}
	out, _, exit, err := s.Exec(ctx, Command{Argv: []string{"sh", "-c", pytestLookup, "towpath", named}, Dir: s.Base.Dir, Env: s.Base.Env}, time.Minute)
	if err != nil {
		return "", fmt.Errorf("look for a Python that has pytest: %w", err)
	}
	python := strings.TrimSpace(string(out))
	if exit != 0 || python == "" {
		return "", towpath.Errorf(towpath.CodeConfig, "no Python here has pytest (looked for .venv, venv, %s, python3, python, /usr/bin/python3): "+
			"install it, as with pip install pytest, or name the Python in run", named)
	}
	if err := os.WriteFile(memo, []byte(key+python), 0o644); err != nil {
		return "", fmt.Errorf("remember which Python has pytest: %w", err)
	}
	return python, nil
}
