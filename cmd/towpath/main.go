// Towpath runs a test suite on every core you own, and always knows why it is not finished.
package main

import (
	"os"

	"github.com/towpath/towpath/internal/cli"
	"github.com/towpath/towpath/internal/executor/process"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == process.GuardArg {
		os.Exit(process.GuardMain(os.Args[2:]))
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
