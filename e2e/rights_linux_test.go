package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without rights of its own, for tests that run as root.
const nobody = 65534

// towpathWithoutRights runs towpath as a user who owns nothing here: root may read and write everything.
func (p *project) towpathWithoutRights(args ...string) result {
	p.t.Helper()
	cmd := p.command(p.t.Context(), args...)
	cmd.Env = append(cmd.Env, "HOME="+p.dir)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		for _, dir := range []string{filepath.Dir(binary), filepath.Dir(p.dir), filepath.Dir(p.state)} {
			if err := os.Chmod(dir, 0o755); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	return result{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
}

func TestWhatMayNotBeReadOrWrittenIsNamed(t *testing.T) {
	t.Parallel()
	const job = "version: 1\njobs:\n  test:\n    atoms: {list: [a]}\n    run: \"true\"\n"
	for name, c := range map[string]struct {
		forbid func(p *project) (path string, mode os.FileMode)
		code   int
	}{
		"a state directory":  {func(p *project) (string, os.FileMode) { return p.state, 0o555 }, 3},
		"a file of jobs":     {func(p *project) (string, os.FileMode) { return filepath.Join(p.dir, "towpath.yaml"), 0o000 }, 2},
		"the workspace":      {func(p *project) (string, os.FileMode) { return p.dir, 0o111 }, 2},
		"a folder of a glob": {func(p *project) (string, os.FileMode) { return filepath.Join(p.dir, "shut"), 0o000 }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"towpath.yaml": job}
			if name == "a folder of a glob" {
				files["towpath.yaml"] = strings.Replace(job, "list: [a]", "glob: \"shut/*.sh\"", 1)
				files["shut/a.sh"] = "true\n"
			}
			p := newProject(t, files)
			if err := os.Chmod(p.state, 0o777); err != nil {
				t.Fatal(err)
			}
			path, mode := c.forbid(p)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(path, 0o755) })
			r := p.towpathWithoutRights("run")
			if r.code != c.code || !strings.Contains(r.stderr+r.stdout, "permission") && !strings.Contains(r.stderr+r.stdout, "read-only") {
				t.Errorf("exit %d, want %d\n%s%s", r.code, c.code, r.stdout, r.stderr)
			}
		})
	}
}
