package plan

import (
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/towpath/towpath"
)

// Only selects atoms of a job by name. A name that a list or a pattern of files does not hold is refused: its command could
// pass without having tested anything. What a command lists is not known before it runs, so those names are taken.
func Only(fsys fs.FS, j towpath.Job, names []string) ([]towpath.Selection, error) {
	listed := make(map[string]bool, len(j.Atoms.List))
	for _, a := range j.Atoms.List {
		listed[a] = true
	}
	only := make([]towpath.Selection, 0, len(names))
	taken := make(map[string]bool, len(names))
	for _, name := range names {
		hint := ""
		switch {
		case strings.TrimSpace(name) == "":
			return nil, towpath.Errorf(towpath.CodeUsage, "an atom to run was given without a name")
		case taken[name]:
			continue
		case len(j.Atoms.List) > 0 && !listed[name]:
			if near := nearest(name, j.Atoms.List); near != "" {
				hint = ": did you mean " + near + "?"
			}
			return nil, towpath.Errorf(towpath.CodeNotFound, "job %s has no atom %q%s", j.Name, clip(name), hint)
		case len(j.Atoms.Glob) > 0 && !globbed(fsys, j.Atoms.Glob, name):
			return nil, towpath.Errorf(towpath.CodeNotFound, "job %s has no atom %q: it is no file that matches %s",
				j.Name, clip(name), clip(strings.Join(j.Atoms.Glob, " or ")))
		}
		taken[name] = true
		only = append(only, towpath.Selection{Atom: name})
	}
	return only, nil
}

// globbed says whether name is a file that one of the patterns gives, named as they name it.
func globbed(fsys fs.FS, patterns []string, name string) bool {
	if !exists(fsys, name) {
		return false
	}
	for _, p := range patterns {
		if ok, err := doublestar.Match(path.Clean(p), name); err == nil && ok {
			return true
		}
	}
	return false
}
