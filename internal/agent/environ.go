package agent

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/towpath/towpath"
)

// environ is the environment of a command of this attempt for the atoms of these names. Later entries of the same name
// replace earlier ones: the agent's own, the job's, Towpath's.
func (a *attempt) environ(names []string) ([]string, error) {
	if a.dirs.root == "" {
		d, err := slotDirs(a.s.cfg.Scratch, a.held[0]+1)
		if err != nil {
			return nil, err
		}
		a.dirs = d
	} else if err := fresh(a.dirs.reports); err != nil {
		return nil, err
	}
	if err := a.dirs.writeAtoms(names); err != nil {
		return nil, err
	}
	own := map[string]string{
		"TOWPATH_ATOMS_FILE": a.dirs.atoms,
		"TOWPATH_BUILD":      strconv.FormatInt(int64(a.offer.Build), 10),
		"TOWPATH_ATTEMPT":    strconv.Itoa(a.offer.Number),
		"TOWPATH_SLOT":       strconv.Itoa(a.held[0] + 1),
		"TOWPATH_REPORTS":    a.dirs.reports,
		"TOWPATH_ARTIFACTS":  a.dirs.artifacts,
	}
	if len(names) == 1 {
		own["TOWPATH_ATOM"] = names[0]
	}
	env := mergeEnv(a.s.cfg.Env, map[string]string{"CI": "true"}, a.offer.Job.Env, own)
	if len(names) != 1 { // an outer Towpath's must not shine through
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "TOWPATH_ATOM=") })
	}
	return env, nil
}

// mergeEnv adds layers to base, later ones over earlier ones. Each name is there once, in a stable order.
func mergeEnv(base []string, layers ...map[string]string) []string {
	over := make(map[string]string)
	for _, layer := range layers {
		maps.Copy(over, layer)
	}
	env := make([]string, 0, len(base)+len(over))
	for _, e := range base {
		name, _, _ := strings.Cut(e, "=")
		if _, replaced := over[name]; !replaced {
			env = append(env, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		env = append(env, name+"="+over[name])
	}
	return env
}

// getenv returns the value of the last entry of that name.
func getenv(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// shell is the command that runs text with args as "$@": bash where there is one, for its pipefail, else sh.
func shell(env []string, text string, args []string) []string {
	for _, dir := range filepath.SplitList(cmp.Or(getenv(env, "PATH"), "/usr/bin:/bin")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		bash := filepath.Join(dir, "bash")
		if info, err := os.Stat(bash); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return append([]string{bash, "-eo", "pipefail", "-c", text, "towpath"}, args...)
		}
	}
	return append([]string{"sh", "-e", "-c", text, "towpath"}, args...)
}

// argBytes is how many bytes of atoms a command line may have. Kernels take more, but share it with the environment.
const argBytes = 100 << 10

// groups splits the units of one subjob into those that one command line can name, in order. A command that reads the
// atoms file needs no split.
func groups(job *towpath.Job, units []towpath.OfferedUnit) [][]towpath.OfferedUnit {
	if strings.Contains(job.Run, "TOWPATH_ATOMS_FILE") {
		return [][]towpath.OfferedUnit{units}
	}
	var out [][]towpath.OfferedUnit
	from, size := 0, 0
	for i := range units {
		n := len(units[i].Name) + 1
		apart := units[i].Split != nil || i > from && units[i-1].Split != nil // a part is a command of its own
		if i > from && (apart || size+n > argBytes) {
			out = append(out, units[from:i])
			from, size = i, 0
		}
		size += n
	}
	return append(out, units[from:])
}

// command is the job's own command for the atoms of these names.
func command(job *towpath.Job, env, names []string) []string {
	if len(job.Argv) == 0 {
		size := 0
		for _, n := range names {
			size += len(n) + 1
		}
		if size > argBytes && len(names) > 1 {
			names = nil // it reads the file
		}
		return shell(env, job.Run, names)
	}
	var argv []string
	for _, word := range job.Argv {
		switch {
		case word == "{}":
			argv = append(argv, names...)
		case strings.Contains(word, "{}") && len(names) == 1:
			argv = append(argv, strings.ReplaceAll(word, "{}", names[0]))
		default:
			argv = append(argv, word)
		}
	}
	return argv
}
