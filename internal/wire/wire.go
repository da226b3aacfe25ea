// Package wire holds the messages between the Towpath server and its agents, and their version. The messages are
// generated from towpath.proto; this package turns them into the inputs and commands of package towpath and back, splits
// what is too large for one message, and puts HTTP/2 on one connection with the agent as its server. Packages session and
// agent call it. It never decides anything.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative,package_suffix= towpath.proto

import (
	"strings"

	"github.com/towpath/towpath"
)

// Protocol is the version of the messages. Both sides must have the same.
const Protocol = 1

// Limits of messages. A message is split before it exceeds softLimit; the few that cannot be split may be larger, up to
// MaxMessage, beyond which the stream is broken.
const (
	softLimit  = 512 << 10
	MaxMessage = 64 << 20
)

// CheckProtocol returns nil if the agent's protocol is ours, else an error that says which side must be upgraded.
func CheckProtocol(h *Hello) error {
	switch {
	case h.GetProtocol() == Protocol:
		return nil
	case h.GetProtocol() < Protocol:
		return towpath.Errorf(towpath.CodeConflict, "agent %s %s speaks protocol %d and this server %d: upgrade the agent",
			h.GetAgent(), h.GetVersion(), h.GetProtocol(), Protocol)
	}
	return towpath.Errorf(towpath.CodeConflict, "agent %s %s speaks protocol %d and this server %d: upgrade the server first",
		h.GetAgent(), h.GetVersion(), h.GetProtocol(), Protocol)
}

// text makes s fit a protobuf string, which must be UTF-8; what tests print need not be.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(ss []string) []string {
	for i, s := range ss {
		if t := text(s); t != s { // copy only if there is something to replace
			out := make([]string, len(ss))
			copy(out, ss[:i])
			for j := i; j < len(ss); j++ {
				out[j] = text(ss[j])
			}
			return out
		}
	}
	return ss
}
