package plan

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/towpath/towpath"
)

// resolvePackages adds, to each quarantine entry of a Go job that names packages by their folder, the same entry by import
// path: go list names the atoms so, and an entry that silently covers nothing would be worse than none.
func resolvePackages(fsys fs.FS, f *File) {
	var modules map[string]string
	for name, j := range f.Jobs {
		if j.Report.Kind != towpath.ReportGoTest {
			continue
		}
		var entries []towpath.Quarantine
		for _, q := range j.Quarantine {
			entries = append(entries, q)
			below, ok := strings.CutPrefix(q.Pattern, "./")
			if !ok {
				continue
			}
			if modules == nil {
				modules = goModules(fsys)
			}
			for _, dir := range slices.Sorted(maps.Keys(modules)) {
				if p := importPattern(dir, modules[dir], below); p != "" {
					entries = append(entries, towpath.Quarantine{Pattern: p, Owner: q.Owner, Until: q.Until})
				}
			}
		}
		j.Quarantine = entries
		f.Jobs[name] = j
	}
}

// importPattern turns a pattern relative to the root into one of import paths of the module in dir, or "" if that module
// does not hold it.
func importPattern(dir, module, below string) string {
	if below == "" || below == "..." {
		return module + strings.TrimSuffix("/"+below, "/")
	}
	if dir == "." {
		return module + "/" + below
	}
	rest, ok := strings.CutPrefix(below, dir)
	if ok && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, "::")) {
		return module + rest
	}
	return ""
}

// goModules returns the paths of the modules at the root and in its workspace, by folder.
func goModules(fsys fs.FS) map[string]string {
	dirs := []string{"."}
	if data, err := fs.ReadFile(fsys, "go.work"); err == nil {
		if work, err := modfile.ParseWork("go.work", data, nil); err == nil {
			for _, use := range work.Use {
				dirs = append(dirs, path.Clean(use.Path))
			}
		}
	}
	modules := make(map[string]string)
	for _, dir := range dirs {
		if data, err := fs.ReadFile(fsys, path.Join(dir, "go.mod")); err == nil {
			if module := modfile.ModulePath(data); module != "" {
				modules[dir] = module
			}
		}
	}
	return modules
}
