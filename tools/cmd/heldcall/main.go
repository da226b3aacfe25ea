// Heldcall runs the heldcall check: go vet -vettool=bin/heldcall ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/towpath/towpath/tools/heldcall"
)

func main() { unitchecker.Main(heldcall.Analyzer) }
