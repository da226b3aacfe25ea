package plan

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/towpath/towpath"
)

// maxNesting bounds how deep a file may nest. The parser recurses, and a stack that overflows cannot be recovered from.
const maxNesting = 100

// maxKeys bounds how many keys a file has. The parser takes time in proportion to their square.
const maxKeys = 10_000

// document parses data as one YAML document and returns its content, nil for none.
func document(file string, data []byte) (root ast.Node, err error) {
	// The parser is not ours and has panicked on malformed input before. Whatever it did, the file is at fault.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, &towpath.Error{
				Code: towpath.CodeConfig, Message: file + ": this is not valid YAML",
				Err: fmt.Errorf("parse yaml: panic: %v", p),
			}
		}
	}()
	text, err := clean(file, data)
	if err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(text)
	if err := checkShape(file, tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(file, err)
	}
	for _, doc := range parsed.Docs {
		body := doc.Body
		if _, ok := body.(*ast.DirectiveNode); ok || body == nil {
			continue
		}
		if _, ok := body.(*ast.CommentGroupNode); ok {
			continue
		}
		if root != nil {
			return nil, errorAt(file, beginning(body), "a second document begins: put all jobs under one jobs key")
		}
		root = body
	}
	return root, nil
}

// beginning returns the first token of a node: a mapping in block style begins at its first key, not at that key's colon.
func beginning(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}

// clean refuses what is no text and returns the rest with plain line ends, so that shell text never carries a \r.
func clean(file string, data []byte) (string, error) {
	if len(data) > MaxFileSize {
		return "", towpath.Errorf(towpath.CodeConfig, "%s is larger than %d KiB: list the atoms by a command or a glob",
			file, MaxFileSize>>10)
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	line, column := 1, 1
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		if c == utf8.RuneError && size == 1 {
			return "", towpath.Errorf(towpath.CodeConfig, "%s:%d:%d: this is not UTF-8: save the file as UTF-8", file, line, column)
		}
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return "", towpath.Errorf(towpath.CodeConfig, "%s:%d:%d: control character %q: remove it, or write it as an escape in double quotes",
				file, line, column, c)
		}
		column++
		if c == '\n' {
			line, column = line+1, 1
		}
		i += size
	}
	return text, nil
}

// checkShape walks the tokens, which cannot recurse, before the parser does, which can, and counts what would make it slow.
func checkShape(file string, tokens token.Tokens) error {
	flow, opened, line, keys := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, opened = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			opened++
		case token.MappingValueType:
			keys++
		default:
		}
		if keys > maxKeys {
			return errorAt(file, t, fmt.Sprintf("this file has more than %d keys: split it, or list the atoms by a command", maxKeys))
		}
		if flow > maxNesting || opened > maxNesting || t.Position.Column > 20*maxNesting && t.Type == token.MappingValueType && flow == 0 {
			return errorAt(file, t, fmt.Sprintf("this nests deeper than %d levels", maxNesting))
		}
	}
	return nil
}

func syntaxError(file string, err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return &towpath.Error{Code: towpath.CodeConfig, Message: file + ": this is not valid YAML: " + oneLine(err.Error()), Err: err}
	}
	return errorAt(file, y.GetToken(), "this is not valid YAML: "+oneLine(y.GetMessage()))
}

func errorAt(file string, t *token.Token, message string) error {
	return &towpath.Error{Code: towpath.CodeConfig, Message: place(file, t) + ": " + message}
}

func place(file string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, t.Position.Line, t.Position.Column)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
