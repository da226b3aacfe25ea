package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/towpath/towpath"
)

// maxFields bounds the keys read from one file, merged ones counted each time, so that merges of merges end.
const maxFields = 200_000

// maxFaults is how many faults of one file are worth reading.
const maxFaults = 50

// reader reads typed values from the nodes of one document and collects what is wrong with them.
type reader struct {
	file    string
	faults  []fault
	aliases map[*ast.AliasNode]ast.Node
	read    int  // keys so far
	tired   bool // maxFields was reached and reported
}

type fault struct {
	at      *token.Token
	message string
}

// value is a node with the path that people know it by, as jobs.test.timeouts.
type value struct {
	path string
	node ast.Node
	key  *token.Token // of the mapping entry that holds it; nil in a list
}

// field is one entry of a mapping.
type field struct {
	name string
	value
}

// shape says which keys a mapping may have: those built, and those that are promised but refused by name until they are.
type shape struct {
	keys, later []string
	meant       map[string]string // what is often written instead of a key
	must        string            // what the mapping is, for messages; by default it lists the keys
}

func newReader(file string, root ast.Node) *reader {
	r := &reader{file: file, aliases: make(map[*ast.AliasNode]ast.Node)}
	r.bind(root, make(map[string]ast.Node))
	return r
}

// bind gives each alias the node it stands for. An anchor counts once its own value has ended, so nothing contains itself.
func (r *reader) bind(n ast.Node, anchors map[string]ast.Node) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		r.bind(n.Value, anchors)
		anchors[n.Name.GetToken().Value] = n.Value
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if target, ok := anchors[name]; ok {
			r.aliases[n] = target
			return
		}
		names := make([]string, 0, len(anchors))
		for a := range anchors {
			names = append(names, a)
		}
		slices.Sort(names)
		r.fault(n.Start, "there is no anchor &%s above%s", name, hint(name, names))
	case *ast.MappingNode:
		for _, v := range n.Values {
			r.bind(v, anchors)
		}
	case *ast.MappingValueNode:
		r.bind(n.Key, anchors)
		r.bind(n.Value, anchors)
	case *ast.MappingKeyNode:
		r.bind(n.Value, anchors)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			r.bind(v, anchors)
		}
	case *ast.TagNode:
		r.bind(n.Value, anchors)
	}
}

func (r *reader) fault(at *token.Token, format string, args ...any) {
	r.faults = append(r.faults, fault{at, fmt.Sprintf(format, args...)})
}

// wrong reports that v is not what it must be.
func (r *reader) wrong(v value, must string) {
	switch r.resolve(v.node).(type) {
	case nil, *ast.NullNode:
		r.fault(v.token(r), "%s has no value: it must be %s", v.path, must)
	default:
		r.fault(v.token(r), "%s must be %s, not %s", v.path, must, r.describe(v.node))
	}
}

// err returns all faults as one error, in the order of the file, or nil.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b fault) int {
		pa, pb := position(a.at), position(b.at)
		return cmp.Or(cmp.Compare(pa.Line, pb.Line), cmp.Compare(pa.Column, pb.Column))
	})
	var lines []string
	for _, f := range r.faults {
		line := place(r.file, f.at) + ": " + f.message
		if !slices.Contains(lines, line) { // what is wrong behind an anchor is wrong once
			lines = append(lines, line)
		}
		if len(lines) > maxFaults {
			lines[maxFaults] = r.file + ": there are more faults"
			break
		}
	}
	return &towpath.Error{Code: towpath.CodeConfig, Message: strings.Join(lines, "\n")}
}

func position(t *token.Token) token.Position {
	if t == nil || t.Position == nil {
		return token.Position{}
	}
	return *t.Position
}

// resolve looks through anchors and aliases.
func (r *reader) resolve(n ast.Node) ast.Node {
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			n = t.Value
		case *ast.AliasNode:
			target, ok := r.aliases[t]
			if !ok {
				return t
			}
			n = target
		default:
			return n
		}
	}
}

// token returns where v begins for people.
func (v value) token(r *reader) *token.Token {
	n := v.node
	if t, ok := n.(*ast.AliasNode); ok {
		return t.Start
	}
	n = r.resolve(n)
	if n == nil || n.Type() == ast.NullType && v.key != nil {
		return v.key
	}
	return beginning(n)
}

// dangling says that v is an alias without an anchor, which bind has reported.
func (r *reader) dangling(v value) bool {
	_, ok := r.resolve(v.node).(*ast.AliasNode)
	return ok
}

func (r *reader) describe(n ast.Node) string {
	switch n := r.resolve(n).(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return strconv.Quote(clip(n.Value))
	case *ast.LiteralNode:
		return strconv.Quote(clip(n.Value.Value))
	case *ast.TagNode:
		return "a value with the tag " + clip(n.Start.Value)
	default:
		return clip(n.GetToken().Value)
	}
}

func clip(s string) string {
	const most = 60
	if c := []rune(s); len(c) > most {
		return string(c[:most]) + "…"
	}
	return s
}

// mapping returns the entries of a mapping that its shape allows, merged ones included, and reports all others. A zero shape
// allows any key.
func (r *reader) mapping(v value, s shape) []field {
	if r.dangling(v) {
		return nil
	}
	m, ok := r.resolve(v.node).(ast.MapNode)
	if !ok {
		must := "a mapping"
		if len(s.keys) > 0 {
			must += " with " + listing(s.keys)
		}
		r.wrong(v, cmp.Or(s.must, must))
		return nil
	}
	fields := r.merged(v.path, m)
	if len(s.keys) == 0 {
		return fields
	}
	known := fields[:0]
	for _, f := range fields {
		switch {
		case slices.Contains(s.keys, f.name):
			known = append(known, f)
		case slices.Contains(s.later, f.name):
			r.fault(f.key, "%s is not built yet: remove it", f.path)
		default:
			r.unknown(v.path, f, s)
		}
	}
	return known
}

func (r *reader) unknown(parent string, f field, s shape) {
	in := "at the top"
	if parent != "" {
		in = "in " + parent
	}
	if near := cmp.Or(s.meant[f.name], nearest(f.name, s.keys)); near != "" {
		r.fault(f.key, "unknown key %q %s: did you mean %q?", f.name, in, near)
		return
	}
	if home := homes[f.name]; home != "" {
		r.fault(f.key, "unknown key %q %s: it belongs in %s", f.name, in, home)
		return
	}
	r.fault(f.key, "unknown key %q %s: use %s", f.name, in, listing(s.keys))
}

// merged returns the entries of m in order. Its own keys win over merged ones, and earlier merges over later ones.
func (r *reader) merged(path string, m ast.MapNode) []field {
	var own, inherited []field
	lines := make(map[string]int)
	for it := m.MapRange(); it.Next(); {
		if r.read++; r.read > maxFields {
			if !r.tired {
				r.tired = true
				r.fault(it.Key().GetToken(), "this and what it merges has more than %d keys", maxFields)
			}
			return nil
		}
		if it.Key().IsMergeKey() {
			inherited = append(inherited, r.inherit(path, it)...)
			continue
		}
		at := it.Key().GetToken()
		name, ok := keyName(it.Key())
		if !ok {
			r.fault(at, "a key must be one plain word")
			continue
		}
		if line, ok := lines[name]; ok {
			r.fault(at, "key %q was given before, in line %d", name, line)
			continue
		}
		lines[name] = at.Position.Line
		own = append(own, field{name, value{join(path, name), it.Value(), at}})
	}
	for _, f := range inherited {
		if _, ok := lines[f.name]; !ok {
			lines[f.name] = f.key.Position.Line
			own = append(own, f)
		}
	}
	return own
}

// inherit returns what one << entry merges: a mapping, or a list of them.
func (r *reader) inherit(path string, it *ast.MapNodeIter) []field {
	sources := []ast.Node{it.Value()}
	if list, ok := r.resolve(it.Value()).(*ast.SequenceNode); ok {
		sources = list.Values
	}
	var fields []field
	for _, n := range sources {
		source := value{join(path, "<<"), n, it.Key().GetToken()}
		if r.dangling(source) {
			continue
		}
		m, ok := r.resolve(n).(ast.MapNode)
		if !ok {
			r.wrong(source, "a mapping, as in <<: *name")
			continue
		}
		fields = append(fields, r.merged(path, m)...)
	}
	return fields
}

func keyName(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	default:
		return "", false
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// hint names the candidate that name was probably meant to be, as the end of a message.
func hint(name string, candidates []string) string {
	if near := nearest(name, candidates); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ""
}

func listing(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
