package runner

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

// goReading follows go test -json on standard output.
type goReading struct {
	spec     Spec
	command  goCommand
	simple   bool          // the command is a go test and nothing else, so its exit status follows from its packages
	selected bool          // only the units' cases run
	part     *towpath.Part // the unit is this part of its package

	events   *report.GoTest
	units    map[string][]int // by package
	packages [][]string       // by unit
	seen     map[string]*goPackage
	told     map[int]bool // units whose report went out early
	stray    []string     // packages that nobody asked for and that failed
	stderr   tail
}

// goPackage is what is known of one package.
type goPackage struct {
	cases  []towpath.Case
	began  []string        // names of the tests that began, in order
	ended  map[string]bool // by name: it passed, failed or was skipped
	result report.GoPackage
	closed bool // result stands
}

func newGoReading(ctx context.Context, s Spec, g goCommand) (*goReading, error) {
	units, packages, err := goUnits(ctx, s, g)
	if err != nil {
		return nil, err
	}
	r := &goReading{
		spec: s, command: g, units: units, packages: packages,
		seen: make(map[string]*goPackage), told: make(map[int]bool),
	}
	r.stderr = tail{keep: 64 << 10, to: func(p []byte) { s.Events.Output(solo(s.Units), p) }}
	r.events = report.NewGoTest(report.GoEvents{
		Started: r.started,
		Output:  r.output,
		CaseStarted: func(pkg, name string) {
			p := r.of(pkg)
			p.began = append(p.began, name)
		},
		Case: func(pkg string, c towpath.Case) {
			p := r.of(pkg)
			p.cases = append(p.cases, c)
			p.ended[c.Select] = p.ended[c.Select] || c.State != towpath.CaseUnfinished
		},
		Result: r.result,
	})
	return r, nil
}

func (r *goReading) Stdout() io.Writer { return r.events }
func (r *goReading) Stderr() io.Writer { return &r.stderr }

func (r *goReading) of(pkg string) *goPackage {
	p := r.seen[pkg]
	if p == nil {
		p = &goPackage{ended: make(map[string]bool)}
		r.seen[pkg] = p
	}
	return p
}

func (r *goReading) started(pkg string) {
	r.of(pkg)
	for _, i := range r.units[pkg] {
		if !slices.ContainsFunc(r.packages[i], func(other string) bool { return other != pkg && r.seen[other] != nil }) {
			r.spec.Events.Began(i)
		}
	}
}

// output passes what a package printed to the units that it belongs to.
func (r *goReading) output(pkg string, text []byte) {
	units := r.units[pkg]
	if len(units) == 0 {
		r.spec.Events.Output(solo(r.spec.Units), text)
	}
	for _, i := range units {
		r.spec.Events.Output(i, text)
	}
}

func (r *goReading) result(result report.GoPackage) {
	p := r.of(result.Name)
	p.result, p.closed = result, true
	if len(r.units[result.Name]) == 0 && result.Outcome == towpath.OutcomeFailed {
		r.stray = append(r.stray, result.Name)
	}
	if !result.Ended || !r.simple || r.part != nil {
		return // its exit status can still speak against it
	}
	for _, i := range r.units[result.Name] {
		if !r.told[i] && r.complete(i) {
			r.told[i] = true
			r.spec.Events.Done(i, r.judge(i, nil, Ended{}))
		}
	}
}

// unexplained says that the compiler's words are not among the events. Before Go 1.24 they went to standard error.
func (p *goPackage) unexplained() bool {
	return p.result.BuildFailed && p.result.Reason == "build failed"
}

// explainBuild finds them there. Only Close may call it: until then that output is another goroutine's.
func (r *goReading) explainBuild(pkg string, p *goPackage) {
	section := false
	for line := range strings.Lines(string(r.stderr.held)) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			section = name == pkg || name == pkg+"_test"
			continue
		}
		if section && strings.Contains(line, ".go:") {
			p.result.Reason = "build failed: " + clip(strings.TrimSpace(line), 300)
			return
		}
	}
}

// complete says whether all of a unit's packages ended, and none in the middle of its tests.
func (r *goReading) complete(unit int) bool {
	for _, name := range r.packages[unit] {
		if p := r.seen[name]; p == nil || !p.closed || !p.result.Ended || p.cut() || p.unexplained() {
			return false
		}
	}
	return true
}

// cut says whether the package ended in the middle of its tests: by a crash, a panic, or an exit.
func (p *goPackage) cut() bool {
	return p.closed && p.result.Ended && p.result.Cut
}

// open names the tests that run, innermost first.
func (p *goPackage) open() []string {
	var names []string
	for _, name := range slices.Backward(p.began) {
		if !p.ended[name] {
			names = append(names, name)
		}
	}
	return names
}

var _ Reading = (*goReading)(nil)
