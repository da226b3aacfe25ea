package runner

import (
	"context"
	"io"

	"github.com/towpath/towpath"
)

// goPart is one part of a package that is run in parts.
type goPart struct{}

func (p *goPart) judge(r towpath.AtomReport) towpath.AtomReport { return r }

// notSplit is the reading of a part that cannot stand for its package: the package is to run whole.
type notSplit struct{ reason string }

func (notSplit) Stdout() io.Writer { return io.Discard }
func (notSplit) Stderr() io.Writer { return io.Discard }

func (n notSplit) Close(context.Context, Ended) (map[int]towpath.AtomReport, error) {
	return map[int]towpath.AtomReport{0: {Outcome: towpath.OutcomeNotSplit, Reason: n.reason}}, nil
}

func beginPart(_ context.Context, s Spec, _ goCommand, _ bool) (Command, Reading, error) {
	return Command{Argv: []string{"true"}, Dir: s.Base.Dir}, notSplit{"parts are not built yet"}, nil
}
