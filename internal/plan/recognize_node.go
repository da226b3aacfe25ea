package plan

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// manifest is what recognition reads of a package.json.
type manifest struct {
	Scripts         map[string]string          `json:"scripts"`
	Dependencies    map[string]json.RawMessage `json:"dependencies"`
	DevDependencies map[string]json.RawMessage `json:"devDependencies"`
	Jest            json.RawMessage            `json:"jest"`
}

func (m manifest) depends(on string) bool {
	_, dev := m.DevDependencies[on]
	_, run := m.Dependencies[on]
	return dev || run
}

// readManifest returns nil if there is no package.json or it cannot be understood: then npm says so better.
func readManifest(fsys fs.FS) *manifest {
	var m manifest
	if data := text(fsys, "package.json"); data == "" || json.Unmarshal([]byte(data), &m) != nil {
		return nil
	}
	return &m
}

// testScript returns the words of the script called test, if it is one plain command, and where in it the tool stands.
func (m manifest) testScript(tool string) (words []string, at int) {
	script := m.Scripts["test"]
	if strings.ContainsAny(script, "&|;<>$`()'\"\\*?#") {
		return nil, -1
	}
	words = strings.Fields(script)
	return words, slices.IndexFunc(words, func(w string) bool { return starts(w, tool) })
}

// starts says whether a word of a command starts the tool.
func starts(word, tool string) bool {
	base := path.Base(word)
	return base == tool || base == tool+".js" || base == tool+".mjs"
}

// scripts says whether the script called test, plain or not, starts the tool.
func (m manifest) scripts(tool string) bool {
	words := strings.FieldsFunc(m.Scripts["test"], func(r rune) bool { return strings.ContainsRune(" &|;()", r) })
	return slices.ContainsFunc(words, func(w string) bool { return starts(w, tool) })
}

// nodeTool is how recognition finds one of the test runners that npm installs.
type nodeTool struct {
	name    string
	configs string   // the beginning of the names of its own files of configuration
	rival   string   // gives way to this one if the script called test starts it
	valued  []string // flags whose value is the next word
}

// without are flags of a test script that would keep a run from ending, or are Towpath's own to set.
var without = []string{
	"--watch", "--watchAll", "--coverage", "--collectCoverage", "--reporter", "--reporters", "--runInBand", "-i", "--maxWorkers", "-w",
	"--bail", "-b", "--shard", "--onlyChanged", "-o", "--run", "--ui", "--verbose", "--outputFile", "--file-parallelism", "--no-file-parallelism", "--json",
}

// command returns the words that start the tool with the flags of the script called test, and the words of the script that
// choose files.
func (t nodeTool) command(fsys fs.FS, m *manifest) (start string, chosen string, installed bool) {
	bin := "node_modules/.bin/" + t.name
	_, err := fs.Lstat(fsys, bin)
	installed = err == nil
	if !installed {
		bin = "npx --no-install " + t.name
	}
	words, at := m.testScript(t.name)
	if at < 0 {
		return bin, "", installed
	}
	var before, after, files []string
	for _, w := range words[:at] {
		switch w {
		case "npx", "--no-install", "-y", "yarn", "pnpm", "exec":
		case "cross-env": // an assignment before the command does the same
		default:
			before = append(before, w)
		}
	}
	rest := words[at+1:]
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		name, _, joined := strings.Cut(w, "=")
		value := !joined && i+1 < len(rest) && slices.Contains(t.valued, name)
		switch {
		case w == "--" || w == "run" || w == "watch" || w == "dev":
		case slices.Contains(without, name) || strings.HasPrefix(name, "--coverage"):
			if value {
				i++
			}
		case strings.HasPrefix(w, "-"):
			after = append(after, shellWord(w))
			if value {
				i++
				after = append(after, shellWord(rest[i]))
			}
		default:
			files = append(files, shellWord(w))
		}
	}
	for i, w := range before {
		if key, value, ok := strings.Cut(w, "="); ok && !strings.HasPrefix(w, "-") {
			before[i] = key + "=" + shellWord(value)
		} else {
			before[i] = shellWord(w)
		}
	}
	if slices.Contains(before, "node") { // node --flags path/to/jest.js
		bin = words[at]
	}
	return strings.Join(slices.Concat(before, []string{bin}, after), " "), strings.Join(files, " "), installed
}

// found says which file tells that the tool is used here, or "".
func (t nodeTool) found(fsys fs.FS, m *manifest) string {
	if m.scripts(t.rival) && !m.scripts(t.name) {
		return ""
	}
	if m.scripts(t.name) || m.depends(t.name) || t.name == "jest" && len(m.Jest) > 0 {
		return "package.json"
	}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), t.configs) {
			return e.Name()
		}
	}
	return ""
}

// guarded puts before a listing command the remedy for a tool that is not there yet.
func (t nodeTool) guarded(command string, installed bool) string {
	if installed {
		return command
	}
	return fmt.Sprintf("npx --no-install %s --version >/dev/null 2>&1 || { echo '%s is not installed here: run npm ci, or npm install' >&2; exit 2; }; %s",
		t.name, t.name, command)
}

var (
	jestTool = nodeTool{
		name: "jest", configs: "jest.config.", rival: "vitest",
		valued: []string{"--config", "-c", "--rootDir", "--env", "--testEnvironment", "--selectProjects", "--testTimeout", "--maxWorkers", "-w", "--reporters", "--shard"},
	}
	vitestTool = nodeTool{
		name: "vitest", configs: "vitest.config.", rival: "jest",
		valued: []string{"--config", "-c", "--root", "-r", "--dir", "--environment", "--project", "--pool", "--maxWorkers", "--reporter", "--shard", "--outputFile"},
	}
)

// recognizeJest finds a project that is tested with Jest. An atom is a test file, as Jest itself lists them.
func recognizeJest(fsys fs.FS) (*Candidate, error) {
	m := readManifest(fsys)
	if m == nil {
		return nil, nil
	}
	why := jestTool.found(fsys, m)
	if why == "" {
		return nil, nil
	}
	start, chosen, installed := jestTool.command(fsys, m)
	// Jest prints whole paths. An atom is a path within the workspace, wherever that lies.
	list := strings.TrimSpace(start+" --listTests "+chosen) + ` | while IFS= read -r f; do printf '%s\n' "${f#"$(pwd -P)"/}"; done`
	return &Candidate{
		Kind: "jest",
		Why:  why,
		Job:  recognized(towpath.AtomSource{Command: jestTool.guarded(list, installed)}, start+` --maxWorkers=1 --runTestsByPath "$@"`, towpath.ReportJest),
	}, nil
}

// recognizeVitest finds a project that is tested with Vitest. An atom is a test file, as Vitest itself lists them.
func recognizeVitest(fsys fs.FS) (*Candidate, error) {
	m := readManifest(fsys)
	if m == nil {
		return nil, nil
	}
	why := vitestTool.found(fsys, m)
	if why == "" {
		return nil, nil
	}
	start, chosen, installed := vitestTool.command(fsys, m)
	list := strings.TrimSpace(start + " list --filesOnly " + chosen)
	if vitestProjects(fsys) {
		list += ` | sed 's/^\[[^]]*\] //' | sort -u` // each file once a project, with the project's name before it
	}
	return &Candidate{
		Kind: "vitest",
		Why:  why,
		Job:  recognized(towpath.AtomSource{Command: vitestTool.guarded(list, installed)}, start+` run --no-file-parallelism "$@"`, towpath.ReportVitest),
	}, nil
}

// vitestProjects says whether the configuration speaks of projects.
func vitestProjects(fsys fs.FS) bool {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return false
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, "vitest.workspace.") {
			return true
		}
		if (strings.HasPrefix(name, "vitest.config.") || strings.HasPrefix(name, "vite.config.")) && strings.Contains(text(fsys, name), "projects") {
			return true
		}
	}
	return false
}

// nodePatterns are the test files of node --test where nothing else is said.
var nodePatterns = []string{
	"**/*.test.{cjs,mjs,js}", "**/*-test.{cjs,mjs,js}", "**/*_test.{cjs,mjs,js}", "**/test-*.{cjs,mjs,js}", "**/test.{cjs,mjs,js}", "**/test/**/*.{cjs,mjs,js}",
}

// recognizeNode finds a project that is tested with node --test. An atom is a test file.
func recognizeNode(fsys fs.FS) (*Candidate, error) {
	m := readManifest(fsys)
	if m == nil {
		m = &manifest{}
	}
	globs, start := nodePatterns, "node --test --test-concurrency=1"
	if script := m.Scripts["test"]; strings.Contains(script, "node") && strings.Contains(script, "--test") && !strings.Contains(script, "jest") {
		if flags, files, plain := nodeScript(fsys, m); plain {
			start = strings.TrimSpace("node "+strings.Join(flags, " ")) + " --test --test-concurrency=1"
			if len(files) > 0 {
				globs = files
			}
		}
		return nodeCandidate("package.json", false, globs, start), nil
	}
	if m.Scripts["test"] != "" || m.depends("jest") || m.depends("vitest") || m.depends("mocha") || m.depends("ava") || m.depends("jasmine") || m.depends("tap") {
		return nil, nil
	}
	sign := ""
	err := look(fsys, ".", func(name string) bool {
		switch path.Ext(name) {
		case ".js", ".cjs", ".mjs":
			if nodeDefault(name) && strings.Contains(text(fsys, name), "node:test") {
				sign = name
			}
		}
		return sign == ""
	})
	if err != nil {
		return nil, fmt.Errorf("look for Node tests: %w", err)
	}
	if sign == "" {
		return nil, nil
	}
	return nodeCandidate(sign, true, globs, start), nil
}

func nodeCandidate(why string, weak bool, globs []string, start string) *Candidate {
	return &Candidate{
		Kind: "node", Why: why, Weak: weak,
		Job: recognized(towpath.AtomSource{Glob: slices.Clone(globs)}, start+` "$@"`, towpath.ReportNode),
	}
}

// nodeScript takes the flags and the files out of a plain script that starts node --test.
func nodeScript(fsys fs.FS, m *manifest) (flags, globs []string, plain bool) {
	if strings.ContainsAny(m.Scripts["test"], "&|;<>$`()\\#") {
		return nil, nil, false
	}
	words := strings.Fields(m.Scripts["test"])
	if len(words) == 0 || words[0] != "node" {
		return nil, nil, false
	}
	valued := []string{"--import", "--require", "-r", "--loader", "--experimental-loader", "--env-file", "--conditions", "-C", "--test-reporter", "--test-reporter-destination"}
	for i := 1; i < len(words); i++ {
		w := strings.Trim(words[i], `'"`)
		name, _, joined := strings.Cut(w, "=")
		value := !joined && i+1 < len(words) && slices.Contains(valued, name)
		switch {
		case w == "--test" || w == "--watch" || strings.HasPrefix(w, "--test-reporter") || name == "--test-concurrency" || strings.HasPrefix(w, "--experimental-test-coverage"):
			if value {
				i++
			}
		case strings.HasPrefix(w, "-"):
			flags = append(flags, shellWord(w))
			if value {
				i++
				flags = append(flags, shellWord(strings.Trim(words[i], `'"`)))
			}
		default:
			globs = append(globs, nodeGlobs(fsys, strings.TrimPrefix(w, "./"))...)
		}
	}
	return flags, globs, true
}

// nodeGlobs are the patterns for one argument of node --test: a folder stands for the test files in it.
func nodeGlobs(fsys fs.FS, arg string) []string {
	arg = strings.TrimSuffix(arg, "/")
	if info, err := fs.Stat(fsys, arg); err != nil || !info.IsDir() {
		return []string{arg}
	}
	if path.Base(arg) == "test" {
		return []string{arg + "/**/*.{cjs,mjs,js}"}
	}
	var globs []string
	for _, p := range nodePatterns {
		globs = append(globs, path.Join(arg, p))
	}
	return globs
}

// nodeDefault says whether the file is a test by its name alone.
func nodeDefault(name string) bool {
	base := strings.TrimSuffix(path.Base(name), path.Ext(name))
	if base == "test" || strings.HasPrefix(base, "test-") || strings.HasPrefix(name, "test/") || strings.Contains(name, "/test/") {
		return true
	}
	return strings.HasSuffix(base, ".test") || strings.HasSuffix(base, "-test") || strings.HasSuffix(base, "_test")
}
