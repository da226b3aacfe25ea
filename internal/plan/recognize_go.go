package plan

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/towpath/towpath"
)

// recognizeGo finds a Go workspace or module at the root. An atom is a package.
func recognizeGo(fsys fs.FS) (*Candidate, error) {
	patterns, why, err := goPatterns(fsys)
	if err != nil || len(patterns) == 0 {
		return nil, err
	}
	var list strings.Builder
	list.WriteString("go list -e")
	for _, p := range patterns {
		list.WriteString(" " + shellWord(p))
	}
	return &Candidate{
		Kind: "go",
		Why:  why,
		Job:  recognized(towpath.AtomSource{Command: list.String()}, `go test -json "$@"`, towpath.ReportGoTest),
	}, nil
}

// goPatterns returns the package patterns that cover what is to be tested from the root.
func goPatterns(fsys fs.FS) (patterns []string, why string, err error) {
	if work := text(fsys, "go.work"); work != "" {
		f, err := modfile.ParseWork("go.work", []byte(work), nil)
		if err != nil {
			return nil, "", &towpath.Error{Code: towpath.CodeConfig, Err: err, Message: fmt.Sprintf("go.work cannot be read: %s", firstLine(err))}
		}
		for _, use := range f.Use {
			patterns = append(patterns, below(use.Path))
		}
		return patterns, fmt.Sprintf("go.work with %s", modules(len(patterns))), nil
	}
	if !exists(fsys, "go.mod") {
		return nil, "", nil
	}
	var nested []string
	err = look(fsys, ".", func(name string) bool {
		if path.Base(name) == "go.mod" && name != "go.mod" && !ignoredByGo(name) {
			nested = append(nested, path.Dir(name))
		}
		return true
	})
	if err != nil {
		return nil, "", fmt.Errorf("look for modules: %w", err)
	}
	why = "go.mod"
	if n := len(nested); n > 0 {
		shown := nested[:min(n, 3)]
		more := ""
		if n > len(shown) {
			more = ", …"
		}
		why += fmt.Sprintf("; without %s of its own below: %s%s", modules(n), strings.Join(shown, ", "), more)
	}
	return []string{"./..."}, why, nil
}

// below is the pattern for all packages of the module in dir, which go.work may write as x, ./x or ../x.
func below(dir string) string {
	dir = path.Clean(dir)
	switch {
	case dir == ".":
		return "./..."
	case path.IsAbs(dir), dir == "..", strings.HasPrefix(dir, "../"):
		return dir + "/..."
	}
	return "./" + dir + "/..."
}

// ignoredByGo says whether the go command leaves the file out of ./... by its folder's name.
func ignoredByGo(name string) bool {
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if part == "testdata" || strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") && part != "." {
			return true
		}
	}
	return false
}

func modules(n int) string {
	if n == 1 {
		return "1 module"
	}
	return fmt.Sprintf("%d modules", n)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return line
}
