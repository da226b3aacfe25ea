package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/towpath/towpath"
)

// goCompileLimit bounds the compilation of one test binary, and the wait for one that another part has begun.
const goCompileLimit = 10 * time.Minute

// notSplit is the reading of a part that cannot stand for its package, or failed before it ran: the package is to run whole.
type notSplit struct {
	outcome towpath.Outcome
	reason  string
}

func (notSplit) Stdout() io.Writer { return io.Discard }
func (notSplit) Stderr() io.Writer { return io.Discard }

func (n notSplit) Close(_ context.Context, end Ended) (map[int]towpath.AtomReport, error) {
	if end.Stopped != "" {
		return map[int]towpath.AtomReport{0: {Outcome: end.Stopped, Reason: end.Reason}}, nil
	}
	return map[int]towpath.AtomReport{0: {Outcome: n.outcome, Reason: n.reason}}, nil
}

// notSplitError says why a package cannot be run in parts.
type notSplitError string

func (e notSplitError) Error() string { return string(e) }

// buildError says why a package cannot be compiled, or what vet has against it.
type buildError string

func (e buildError) Error() string { return string(e) }

// beginPart runs a share of one package's tests with a test binary that is compiled once per session.
func beginPart(ctx context.Context, s Spec, g goCommand, simple bool) (Command, Reading, error) {
	c, r, err := goPartCommand(ctx, s, g, simple)
	if no := notSplitError(""); errors.As(err, &no) {
		return Command{Argv: []string{"true"}, Dir: s.Base.Dir}, notSplit{towpath.OutcomeNotSplit, string(no)}, nil
	}
	if no := buildError(""); errors.As(err, &no) {
		return Command{Argv: []string{"true"}, Dir: s.Base.Dir}, notSplit{towpath.OutcomeFailed, string(no)}, nil
	}
	return c, r, err
}

func goPartCommand(ctx context.Context, s Spec, g goCommand, simple bool) (Command, Reading, error) {
	if !simple {
		return Command{}, nil, notSplitError(`run is not a plain go test … "$@"`)
	}
	flags, err := g.splitFlags()
	if err != nil {
		return Command{}, nil, err
	}
	pkg, err := goPackageOf(ctx, s, g)
	if err != nil {
		return Command{}, nil, err
	}
	if !s.Job.Split {
		if err := pkg.refuseTestMain(); err != nil {
			return Command{}, nil, err
		}
	}
	binary, err := compileOnce(ctx, s, g, flags, pkg)
	if err != nil {
		return Command{}, nil, err
	}
	part := s.Units[0].Split
	argv := []string{"go", "tool", "test2json", "-t", "-p", pkg.ImportPath, binary, "-test.paniconexit0", "-test.v=test2json"}
	if !flags.timeout {
		argv = append(argv, "-test.timeout=10m0s") // go test's own default
	}
	argv = append(argv, flags.run...)
	if part.Rest {
		if len(part.Skip) > 0 {
			argv = append(argv, "-test.skip="+anyOf(part.Skip))
		}
	} else {
		argv = append(argv, "-test.run="+anyOf(part.Run))
	}
	r, err := newGoReading(ctx, s, g)
	if err != nil {
		return Command{}, nil, err
	}
	r.rename(pkg.ImportPath)
	r.part = part
	return Command{Argv: append(argv, flags.args...), Dir: pkg.Dir, Env: slices.Concat(s.Base.Env, g.env, []string{"PWD=" + pkg.Dir})}, r, nil
}

// anyOf matches exactly the named top-level tests, with all that is below them.
func anyOf(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// rename says under which name the one unit's package reports.
func (r *goReading) rename(pkg string) {
	r.units = map[string][]int{pkg: {0}}
	r.packages = [][]string{{pkg}}
}

// judgePart doubts a part: a test that it was to run and that is not there has not passed, and a part without any test is
// nothing to be skipped over.
func judgePart(part *towpath.Part, one towpath.AtomReport, began []string) towpath.AtomReport {
	if !clean(one) {
		return one
	}
	for _, name := range part.Run {
		if !slices.Contains(began, name) {
			one.Outcome, one.Reason = towpath.OutcomeNotSplit, "the package no longer has "+name
			return one
		}
	}
	one.Cached = false
	return one
}

// goSplitFlags are a go test command's flags, divided into those of the compilation and those of the test binary.
type goSplitFlags struct {
	build, run, args []string
	timeout          bool
}

// splitFlags divides the flags. A flag that changes what a package's result is in ways that parts cannot add up again, or
// that is not known, forbids the split.
func (g goCommand) splitFlags() (goSplitFlags, error) {
	var f goSplitFlags
	words := slices.Concat(g.before, g.after)
	for i := 0; i < len(words); i++ {
		w := words[i]
		name := strings.TrimPrefix(flagName(w), "test.")
		if w == "-args" || w == "--args" {
			f.args = words[i+1:]
			break
		}
		var isBool, build bool
		switch name {
		case "race", "msan", "asan", "trimpath", "a", "linkshared", "modcacherw":
			isBool, build = true, true
		case "tags", "mod", "modfile", "overlay", "ldflags", "gcflags", "asmflags", "gccgoflags", "pgo", "buildvcs", "buildmode", "compiler", "installsuffix", "pkgdir", "p", "vet":
			build = true
		case "short", "failfast", "fullpath":
			isBool = true
		case "count", "cpu", "parallel", "timeout", "shuffle":
			f.timeout = f.timeout || name == "timeout"
		default:
			return f, notSplitError("run has " + w + ", which cannot be divided")
		}
		take := []string{w}
		if !isBool && !strings.Contains(w, "=") {
			if i++; i >= len(words) {
				return f, notSplitError("run ends with " + w + " without a value")
			}
			take = append(take, words[i])
		}
		if build {
			f.build = append(f.build, take...)
			continue
		}
		_, value, given := strings.Cut(w, "=")
		if len(take) == 2 {
			value, given = take[1], true
		}
		if given {
			f.run = append(f.run, "-test."+name+"="+value)
		} else {
			f.run = append(f.run, "-test."+name)
		}
	}
	return f, nil
}

// goListed is what go list says of a package.
type goListed struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
	Error        *struct{ Err string }
}

func goPackageOf(ctx context.Context, s Spec, g goCommand) (goListed, error) {
	argv := slices.Concat([]string{"go", "list", "-e", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Error"}, g.listFlags(), []string{s.Units[0].Name})
	out, stderr, exit, err := s.Exec(ctx, Command{Argv: argv, Dir: s.Base.Dir, Env: slices.Concat(s.Base.Env, g.env)}, goListLimit)
	if err != nil {
		return goListed{}, fmt.Errorf("look at package %s: %w", s.Units[0].Name, err)
	}
	var pkg goListed
	d := json.NewDecoder(bytes.NewReader(out))
	if err := d.Decode(&pkg); err != nil || exit != 0 || pkg.Error != nil || pkg.Dir == "" {
		return goListed{}, notSplitError("go list cannot say what the package is: " + lastLine(string(stderr)))
	}
	if d.More() {
		return goListed{}, notSplitError(s.Units[0].Name + " is several packages")
	}
	return pkg, nil
}

// refuseTestMain finds a TestMain: what it does before and after all tests would be done in each part.
func (p goListed) refuseTestMain() error {
	files := token.NewFileSet()
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return buildError("build failed: " + firstLine(err.Error()))
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "TestMain" {
				return notSplitError("the package has a TestMain, which would run in each part (split: true allows it)")
			}
		}
	}
	return nil
}

// compileOnce brings the test binary up to date. Parts of the same package wait for each other; the go command does
// nothing if the binary is what it would make.
func compileOnce(ctx context.Context, s Spec, g goCommand, flags goSplitFlags, pkg goListed) (string, error) {
	key := sha256.Sum256([]byte(strings.Join(slices.Concat([]string{pkg.Dir, pkg.ImportPath}, flags.build, g.env), "\x00")))
	dir := filepath.Join(s.Scratch, "go-parts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of test binaries: %w", err)
	}
	binary := filepath.Join(dir, hex.EncodeToString(key[:8])+".test")
	ctx, cancel := context.WithTimeout(ctx, goCompileLimit)
	defer cancel()
	lock := flock.New(binary + ".lock")
	if ok, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil || !ok {
		return "", fmt.Errorf("wait for the test binary of %s: %w", pkg.ImportPath, err)
	}
	defer lock.Unlock() //nolint:errcheck // the file is closed in any case
	argv := slices.Concat([]string{"go", "test", "-c", "-o", binary}, flags.build, []string{pkg.ImportPath})
	_, stderr, exit, err := s.Exec(ctx, Command{Argv: argv, Dir: s.Base.Dir, Env: slices.Concat(s.Base.Env, g.env)}, goCompileLimit)
	if err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w", pkg.ImportPath, err)
	}
	if exit != 0 {
		return "", buildError("build failed: " + firstLine(withoutComments(string(stderr))))
	}
	if _, err := os.Stat(binary); err != nil {
		return "", notSplitError("the package has no tests")
	}
	return binary, nil
}

// withoutComments drops the lines with which the go command names packages.
func withoutComments(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}
