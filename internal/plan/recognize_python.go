package plan

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// pytestFiles are the test files of a project that does not say otherwise.
const pytestFiles = "{test_*,*_test}.py"

// recognizePytest finds a project that is tested with pytest. An atom is a test file. The list is made of patterns and not
// of pytest's own collection, so that a file which cannot be imported fails alone and hides no other.
func recognizePytest(fsys fs.FS) (*Candidate, error) {
	conf := pytestConfig(fsys)
	files := conf.filePattern()
	roots := conf.roots(fsys)
	if len(roots) == 0 {
		roots = []string{"."}
	}
	tops, sign, err := pythonTests(fsys, roots, files)
	if err != nil {
		return nil, fmt.Errorf("look for Python tests: %w", err)
	}
	weak := false
	switch {
	case conf.file != "":
	case exists(fsys, "conftest.py"):
		conf.file = "conftest.py"
	case exists(fsys, "tests/conftest.py"):
		conf.file = "tests/conftest.py"
	case sign != "":
		conf.file, weak = sign, true
	default:
		return nil, nil
	}
	if len(tops) == 0 {
		tops = roots
	}
	globs := make([]string, len(tops))
	for i, top := range tops {
		globs[i] = under(top, files)
	}
	return &Candidate{
		Kind: "pytest",
		Why:  conf.file,
		Weak: weak,
		Job:  recognized(towpath.AtomSource{Glob: globs}, `python3 -m pytest "$@"`, towpath.ReportPytest),
	}, nil
}

// under is the pattern for files below top; for the root itself the pattern stays in the root when it has folders beside it.
func under(top, files string) string {
	switch top {
	case "":
		return files
	case ".":
		return "**/" + files
	}
	return top + "/**/" + files
}

// pythonTests looks for test files below the roots. tops are the folders that hold some: the roots themselves, but for the
// root of the project its folders one by one ("" stands for the files beside them), so that no pattern reaches into a
// virtual environment. sign is a file in which a test is defined, if one of the first has any.
func pythonTests(fsys fs.FS, roots []string, files string) (tops []string, sign string, err error) {
	matches := fileMatcher(files)
	read := 0
	for _, root := range roots {
		err := look(fsys, root, func(name string) bool {
			if !matches(path.Base(name)) || strings.Contains(name, "/testdata/") {
				return true
			}
			top := root
			if root == "." {
				top, _, _ = strings.Cut(name, "/")
				if top == name {
					top = ""
				}
			}
			if !slices.Contains(tops, top) {
				tops = append(tops, top)
			}
			if sign == "" && read < 50 {
				read++
				if definesTest.MatchString(text(fsys, name)) {
					sign = name
				}
			}
			return true
		})
		if err != nil {
			return nil, "", err
		}
	}
	slices.Sort(tops)
	return tops, sign, nil
}

var definesTest = regexp.MustCompile(`(?m)^\s*(async\s+)?def test|^\s*(import|from) (pytest|unittest)`)

// fileMatcher matches base names against one pattern of the kind {a,b}.py.
func fileMatcher(files string) func(string) bool {
	stem, ok := strings.CutPrefix(files, "{")
	if !ok {
		return func(base string) bool { ok, err := path.Match(files, base); return ok && err == nil }
	}
	inner, tail, _ := strings.Cut(stem, "}")
	alternatives := strings.Split(inner, ",")
	return func(base string) bool {
		return slices.ContainsFunc(alternatives, func(a string) bool {
			ok, err := path.Match(a+tail, base)
			return ok && err == nil
		})
	}
}

// pytestSettings is what a project's configuration says of where its tests are.
type pytestSettings struct {
	file        string // "" if there is none
	testpaths   []string
	pythonFiles []string
}

// pytestConfig reads the first file that configures pytest, in pytest's own order.
func pytestConfig(fsys fs.FS) pytestSettings {
	for _, at := range []struct{ file, section string }{
		{"pytest.ini", "[pytest]"},
		{".pytest.ini", "[pytest]"},
		{"pytest.toml", "[pytest]"},
		{".pytest.toml", "[pytest]"},
		{"pyproject.toml", "[tool.pytest.ini_options]"},
		{"pyproject.toml", "[tool.pytest]"},
		{"tox.ini", "[pytest]"},
		{"setup.cfg", "[tool:pytest]"},
	} {
		lines, ok := section(text(fsys, at.file), at.section)
		if !ok && (!strings.HasSuffix(at.file, "pytest.ini") || !exists(fsys, at.file)) {
			continue
		}
		return pytestSettings{file: at.file, testpaths: setting(lines, "testpaths"), pythonFiles: setting(lines, "python_files")}
	}
	return pytestSettings{}
}

// section returns the lines of an INI or TOML section.
func section(content, header string) (lines []string, ok bool) {
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "[") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			name, _, _ := strings.Cut(bare, "#")
			if strings.TrimSpace(name) == header {
				ok = true
				continue
			}
			if ok && strings.HasSuffix(strings.TrimSpace(name), "]") && !strings.Contains(name, `"`) && !strings.Contains(name, `'`) {
				break
			}
		}
		if ok {
			lines = append(lines, line)
		}
	}
	return lines, ok
}

// setting reads the words of one key: INI words over continuation lines, or a TOML string or array of strings.
func setting(lines []string, key string) []string {
	var value strings.Builder
	inside := false
	for _, line := range lines {
		bare := strings.TrimSpace(line)
		if bare == "" || strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, ";") {
			continue
		}
		if name, rest, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			inside = strings.TrimSpace(name) == key
			line = rest
		}
		if inside {
			line, _, _ = strings.Cut(line, " #")
			value.WriteString(line + "\n")
		}
	}
	return strings.FieldsFunc(value.String(), func(c rune) bool { return strings.ContainsRune(" \t\n\r,[]\"'", c) })
}

// roots are the folders of testpaths that exist, if all of them are plain.
func (s pytestSettings) roots(fsys fs.FS) []string {
	var roots []string
	for _, p := range s.testpaths {
		p = path.Clean(p)
		if !fs.ValidPath(p) || strings.ContainsAny(p, "*?[{\\") {
			return nil
		}
		if info, err := fs.Stat(fsys, p); err == nil && info.IsDir() && !slices.Contains(roots, p) {
			roots = append(roots, p)
		}
	}
	return roots
}

// filePattern is python_files as one pattern, if it is plain.
func (s pytestSettings) filePattern() string {
	var stems []string
	for _, p := range s.pythonFiles {
		stem, ok := strings.CutSuffix(p, ".py")
		if !ok || stem == "" || strings.ContainsAny(p, "/{},\\") {
			return pytestFiles
		}
		stems = append(stems, stem)
	}
	switch len(stems) {
	case 0:
		return pytestFiles
	case 1:
		return stems[0] + ".py"
	}
	return "{" + strings.Join(stems, ",") + "}.py"
}
