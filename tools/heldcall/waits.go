package heldcall

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// waits is the fact that a function can wait.
type waits struct{ Why string }

// AFact marks waits as a fact.
func (*waits) AFact() {}

func (w *waits) String() string { return "waits: " + w.Why }

// listed are functions of the standard library, and of libraries that Towpath uses, that can wait without taking a context.
var listed = map[string]bool{
	"time.Sleep": true, "(*sync.WaitGroup).Wait": true, "(*sync.Cond).Wait": true, "(*golang.org/x/sync/errgroup.Group).Wait": true,
	"net.Dial": true, "net.DialTimeout": true, "(net.Conn).Read": true, "(net.Conn).Write": true, "(net.Listener).Accept": true,
	"(*net/http.Client).Do": true, "(*net/http.Client).Get": true, "(*net/http.Client).Post": true, "net/http.Get": true, "net/http.Post": true,
	"(*os/exec.Cmd).Run": true, "(*os/exec.Cmd).Wait": true, "(*os/exec.Cmd).Output": true, "(*os/exec.Cmd).CombinedOutput": true,
	"io.Copy": true, "io.CopyN": true, "io.ReadAll": true, "io.ReadFull": true, "(*os.File).Sync": true,
	"(*database/sql.DB).Exec": true, "(*database/sql.DB).Query": true, "(*database/sql.DB).QueryRow": true, "(*database/sql.DB).Begin": true,
	"(*database/sql.DB).Ping": true, "(*database/sql.Tx).Exec": true, "(*database/sql.Tx).Query": true, "(*database/sql.Tx).Commit": true,
}

// harmless are prefixes of functions that take a context and do not wait for it.
var harmless = []string{
	"context.", "(context.Context).", "log/slog.", "(*log/slog.", "testing.", "(*testing.", "runtime/",
	"net/http.NewRequestWithContext", "os/exec.CommandContext", "go.opentelemetry.io/", "(go.opentelemetry.io/",
}

// waiting says how an instruction can wait, "" if it cannot.
func waiting(pass *analysis.Pass, in ssa.Instruction) string {
	switch in := in.(type) {
	case *ssa.Send:
		return "channel send"
	case *ssa.UnOp:
		if in.Op == token.ARROW {
			return "channel receive"
		}
	case *ssa.Select:
		if in.Blocking {
			return "select without default"
		}
	case *ssa.Call:
		return waitingCall(pass, &in.Call)
	}
	return ""
}

func waitingCall(pass *analysis.Pass, c *ssa.CallCommon) string {
	name := ""
	if c.IsInvoke() {
		name = c.Method.FullName()
	} else if fn := c.StaticCallee(); fn != nil {
		name = fn.String()
		if obj, ok := fn.Object().(*types.Func); ok {
			name = obj.FullName()
			var w waits
			if pass.ImportObjectFact(obj, &w) {
				why, _, _ := strings.Cut(w.Why, " (")
				return fmt.Sprintf("call of %s, which can wait (%s),", obj.Name(), why)
			}
		}
	}
	for _, prefix := range harmless {
		if strings.HasPrefix(name, prefix) {
			return ""
		}
	}
	if listed[name] {
		return "call of " + name
	}
	if p := c.Signature().Params(); p.Len() > 0 && p.At(0).Type().String() == "context.Context" {
		if name == "" {
			name = "a function value"
		}
		return "call of " + name + ", which takes a context,"
	}
	return ""
}
