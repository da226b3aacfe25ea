// Package heldcall is a vet check: it reports what can wait while a mutex is held.
//
// What can wait is a channel send or receive, a select without default, a call of a function whose first parameter is a
// context.Context (in Towpath only such functions may wait), a call of a listed function of the standard library, and a
// call of a function that was itself found to wait. A mutex is a sync.Mutex or sync.RWMutex; a deferred unlock keeps it
// held to the end of the function. Test files are not checked.
package heldcall

import (
	"go/token"
	"go/types"
	"maps"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/buildssa"
	"golang.org/x/tools/go/ssa"
)

// Analyzer is the check.
var Analyzer = &analysis.Analyzer{
	Name:      "heldcall",
	Doc:       "report what can wait while a mutex is held",
	Run:       run,
	Requires:  []*analysis.Analyzer{buildssa.Analyzer},
	FactTypes: []analysis.Fact{(*waits)(nil)},
}

func run(pass *analysis.Pass) (any, error) {
	prog, ok := pass.ResultOf[buildssa.Analyzer].(*buildssa.SSA)
	if !ok {
		return nil, nil //nolint:nilnil // an analyzer without a result returns nil
	}
	if standardLibrary(pass.Pkg.Path()) {
		return nil, nil //nolint:nilnil // the functions of the standard library that wait are listed by name
	}
	exportWaits(pass, prog.SrcFuncs)
	for _, fn := range prog.SrcFuncs {
		if !strings.HasSuffix(pass.Fset.Position(fn.Pos()).Filename, "_test.go") {
			check(pass, fn)
		}
	}
	return nil, nil //nolint:nilnil // as above
}

func standardLibrary(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != "reg" // reg is the package of the check's own test
}

// exportWaits marks each function that can wait, until no further one is found.
func exportWaits(pass *analysis.Pass, fns []*ssa.Function) {
	for again := true; again; {
		again = false
		for _, fn := range fns {
			obj, ok := fn.Object().(*types.Func)
			if !ok || pass.ImportObjectFact(obj, new(waits)) {
				continue
			}
			if why := firstWait(pass, fn); why != "" {
				pass.ExportObjectFact(obj, &waits{Why: why})
				again = true
			}
		}
	}
}

func firstWait(pass *analysis.Pass, fn *ssa.Function) string {
	for _, b := range fn.Blocks {
		for _, in := range b.Instrs {
			if why := waiting(pass, in); why != "" {
				return why
			}
		}
	}
	return ""
}

// held is the set of locks that are held on every path to a point, with where each was taken.
type held map[string]token.Pos

// check walks fn's blocks until what is held at the start of each is settled, then reports.
func check(pass *analysis.Pass, fn *ssa.Function) {
	if len(fn.Blocks) == 0 {
		return
	}
	at := make([]held, len(fn.Blocks))
	at[0] = held{}
	for again := true; again; {
		again = false
		for _, b := range fn.Blocks {
			if at[b.Index] == nil {
				continue
			}
			now := maps.Clone(at[b.Index])
			for _, in := range b.Instrs {
				now.apply(in)
			}
			for _, succ := range b.Succs {
				if narrow(&at[succ.Index], now) {
					again = true
				}
			}
		}
	}
	reported := map[token.Pos]bool{}
	for _, b := range fn.Blocks {
		if at[b.Index] == nil {
			continue
		}
		now := maps.Clone(at[b.Index])
		for _, in := range b.Instrs {
			if now.apply(in) || len(now) == 0 || reported[in.Pos()] {
				continue
			}
			if why := waiting(pass, in); why != "" {
				reported[in.Pos()] = true
				lock := now.first()
				pass.Reportf(in.Pos(), "%s while %s is held (locked at line %d)", why, lock, pass.Fset.Position(now[lock]).Line)
			}
		}
	}
}

// apply takes note of a lock or unlock and says whether in was one.
func (h held) apply(in ssa.Instruction) bool {
	lock, op := lockOperation(in)
	switch op {
	case "Lock", "RLock":
		h[lock] = in.Pos()
	case "Unlock", "RUnlock":
		delete(h, lock)
	default:
		return false
	}
	return true
}

func (h held) first() string {
	best := ""
	for lock, pos := range h {
		if best == "" || pos < h[best] {
			best = lock
		}
	}
	return best
}

// narrow keeps in *dst only what is also held on this path, and says whether *dst changed.
func narrow(dst *held, path held) bool {
	if *dst == nil {
		*dst = maps.Clone(path)
		return true
	}
	before := len(*dst)
	maps.DeleteFunc(*dst, func(lock string, _ token.Pos) bool { _, ok := path[lock]; return !ok })
	return len(*dst) != before
}

// lockOperation names the lock and the method if in calls one of a mutex.
func lockOperation(in ssa.Instruction) (lock, op string) {
	call, ok := in.(*ssa.Call)
	if !ok {
		return "", ""
	}
	fn := call.Call.StaticCallee()
	if fn == nil || fn.Signature.Recv() == nil || len(call.Call.Args) == 0 {
		return "", ""
	}
	switch fn.Signature.Recv().Type().String() {
	case "*sync.Mutex", "*sync.RWMutex":
		return place(call.Call.Args[0]), fn.Name()
	}
	return "", ""
}

// place names the variable that v is the address of, as r.mu.
func place(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		ptr, ok := v.X.Type().Underlying().(*types.Pointer)
		if !ok {
			return v.Name()
		}
		st, ok := ptr.Elem().Underlying().(*types.Struct)
		if !ok {
			return v.Name()
		}
		return place(v.X) + "." + st.Field(v.Field).Name()
	case *ssa.UnOp:
		return place(v.X)
	}
	return v.Name()
}
