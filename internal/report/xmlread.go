package report

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// xmlReader reads XML as test runners write it, which is often none: with control characters and references to them,
// bytes in no encoding, a bare < in the text, no end. A strict parser stops at the first of these, and whoever then drops
// the file hides its failures. It also never holds more of a text than a piece, where the standard library's holds it all.
type xmlReader struct {
	r     *bufio.Reader
	line  int
	mode  xmlMode
	carry []byte // the start of a reference or the possible start of ]]> at the end of the last piece
	at    bool   // behind a < that begins markup
	close string // the name of an empty element whose end is still to be told
}

type xmlMode int

const (
	xmlText xmlMode = iota
	xmlCDATA
)

type xmlKind int

const (
	xmlStart xmlKind = iota
	xmlEnd
	xmlChars
)

// xmlToken is a start with its attributes, an end, or a piece of text.
type xmlToken struct {
	kind  xmlKind
	name  string // without a namespace prefix
	attrs []xmlAttr
	text  string
}

type xmlAttr struct{ name, value string }

func (t xmlToken) attr(names ...string) string {
	for _, name := range names {
		for _, a := range t.attrs {
			if a.name == name {
				return a.value
			}
		}
	}
	return ""
}

// errTorn is the end of the input in the midst of markup.
var errTorn = errors.New("the file ends inside a tag")

const (
	xmlBuffer   = 64 << 10
	maxTag      = 1 << 20 // bytes of one tag; of a longer one the attributes that do not fit are dropped
	maxAttr     = maxDetail
	maxAttrs    = 256
	maxXMLDepth = 1 << 16
)

func newXMLReader(r io.Reader) *xmlReader {
	return &xmlReader{r: bufio.NewReaderSize(decodeXML(r), xmlBuffer), line: 1}
}

// next returns the next token, io.EOF at the end, errTorn if that is no good place to end, or the input's error.
func (x *xmlReader) next() (xmlToken, error) {
	if x.close != "" {
		t := xmlToken{kind: xmlEnd, name: x.close}
		x.close = ""
		return t, nil
	}
	for {
		if x.mode == xmlCDATA {
			return x.cdata()
		}
		if x.at {
			x.at = false
			if t, ok, err := x.markup(); ok || err != nil {
				return t, err
			}
			continue
		}
		piece, err := x.r.ReadSlice('<')
		x.line += bytes.Count(piece, []byte("\n"))
		whole := err == nil
		if whole {
			piece = piece[:len(piece)-1]
		} else if !errors.Is(err, bufio.ErrBufferFull) && len(piece) == 0 && len(x.carry) == 0 {
			return xmlToken{}, err
		}
		text := append(x.carry, piece...)
		x.carry = nil
		markup := false
		if whole {
			next, _ := x.r.Peek(1)
			if markup = len(next) == 1 && isMarkup(next[0]); !markup {
				text = append(text, '<')
			}
		}
		if !markup && (whole || errors.Is(err, bufio.ErrBufferFull)) {
			// Do not cut a reference or a character in two.
			text, x.carry = splitTail(text)
		}
		if len(text) > 0 {
			x.at = markup
			return xmlToken{kind: xmlChars, text: unescapeXML(text)}, nil
		}
		if !markup {
			continue
		}
		x.at = true
	}
}

func isMarkup(b byte) bool {
	return b == '/' || b == '!' || b == '?' || b == '_' || b == ':' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// splitTail keeps back what may be the start of a reference or of a character.
func splitTail(text []byte) (now, later []byte) {
	from := max(0, len(text)-16)
	if i := bytes.LastIndexByte(text[from:], '&'); i >= 0 && bytes.IndexByte(text[from+i:], ';') < 0 {
		return text[:from+i], bytes.Clone(text[from+i:])
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if b >= 0xc0 && !utf8.FullRune(text[len(text)-n:]) {
				return text[:len(text)-n], bytes.Clone(text[len(text)-n:])
			}
			break
		}
	}
	return text, nil
}

// markup reads what follows a <. It is not ok for what is no token, such as a comment.
func (x *xmlReader) markup() (xmlToken, bool, error) {
	head, _ := x.r.Peek(9)
	switch {
	case bytes.HasPrefix(head, []byte("![CDATA[")):
		_, _ = x.r.Discard(8) // it was peeked at
		x.mode = xmlCDATA
		return xmlToken{}, false, nil
	case bytes.HasPrefix(head, []byte("!--")):
		_, _ = x.r.Discard(3)
		return xmlToken{}, false, x.skip("-->")
	case bytes.HasPrefix(head, []byte("?")):
		return xmlToken{}, false, x.skip("?>")
	case bytes.HasPrefix(head, []byte("!")):
		return xmlToken{}, false, x.doctype()
	}
	return x.tag()
}

// cdata returns a piece of a CDATA section.
func (x *xmlReader) cdata() (xmlToken, error) {
	piece, err := x.r.ReadSlice('>')
	x.line += bytes.Count(piece, []byte("\n"))
	if len(piece) == 0 && err != nil {
		if errors.Is(err, io.EOF) {
			return xmlToken{}, errTorn
		}
		return xmlToken{}, err
	}
	text := append(x.carry, piece...)
	x.carry = nil
	if bytes.HasSuffix(text, []byte("]]>")) {
		x.mode = xmlText
		return xmlToken{kind: xmlChars, text: string(text[:len(text)-3])}, nil
	}
	keep := max(0, len(text)-4) // an end cut in two, or a character
	if err == nil && text[len(text)-1] == '>' {
		keep = len(text)
	}
	for keep > 0 && keep < len(text) && !utf8.RuneStart(text[keep]) {
		keep--
	}
	x.carry = bytes.Clone(text[keep:])
	return xmlToken{kind: xmlChars, text: string(text[:keep])}, nil
}

// skip reads up to and including end.
func (x *xmlReader) skip(end string) error {
	matched := 0
	for {
		b, err := x.byte()
		if err != nil {
			return err
		}
		switch {
		case b == end[matched]:
			matched++
			if matched == len(end) {
				return nil
			}
		case matched > 1 && b == end[0] && end[0] == end[1]: // --->
		case b == end[0]:
			matched = 1
		default:
			matched = 0
		}
	}
}

// doctype skips a declaration with what stands in its brackets.
func (x *xmlReader) doctype() error {
	depth, quote := 0, byte(0)
	for {
		b, err := x.byte()
		switch {
		case err != nil:
			return err
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '"' || b == '\'':
			quote = b
		case b == '[' || b == '<':
			depth++
		case b == ']':
			depth--
		case b == '>':
			if depth <= 0 {
				return nil
			}
			depth = max(0, depth-1)
			if depth == 0 { // the bracket of the subset is still open
				depth = 1
			}
		}
	}
}

func (x *xmlReader) byte() (byte, error) {
	b, err := x.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, errTorn
	}
	if b == '\n' {
		x.line++
	}
	return b, err
}

// tag reads a start or an end tag.
func (x *xmlReader) tag() (xmlToken, bool, error) {
	var raw []byte
	quote, last := byte(0), byte(0) // last: the last byte that is no space
	for {
		b, err := x.byte()
		if err != nil {
			return xmlToken{}, false, err
		}
		if quote == 0 && b == '>' {
			break
		}
		switch {
		case quote != 0 && b == quote:
			quote = 0
		case quote == 0 && (b == '"' || b == '\'') && last == '=':
			quote = b
		}
		if len(raw) < maxTag {
			raw = append(raw, b)
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			last = b
		}
	}
	if len(raw) == maxTag && last == '/' {
		raw = append(raw, last)
	}
	t := xmlToken{kind: xmlStart}
	if rest, ok := bytes.CutPrefix(raw, []byte("/")); ok {
		t.kind, raw = xmlEnd, rest
	}
	empty := false
	if rest, ok := bytes.CutSuffix(raw, []byte("/")); ok && t.kind == xmlStart {
		empty, raw = true, rest
	}
	name := raw
	if i := bytes.IndexAny(raw, " \t\r\n"); i >= 0 {
		name, raw = raw[:i], raw[i:]
	} else {
		raw = nil
	}
	t.name = localName(name)
	if t.kind == xmlStart {
		t.attrs = parseAttrs(raw)
	}
	if empty {
		x.close = t.name
	}
	return t, true, nil
}

func localName(name []byte) string {
	if i := bytes.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	return strings.ToValidUTF8(string(name[:min(len(name), 256)]), "\uFFFD")
}

func parseAttrs(raw []byte) []xmlAttr {
	var attrs []xmlAttr
	for len(attrs) < maxAttrs {
		name, rest, ok := bytes.Cut(raw, []byte("="))
		if !ok {
			break
		}
		rest = bytes.TrimLeft(rest, " \t\r\n")
		if len(rest) == 0 {
			break
		}
		var value []byte
		if q := rest[0]; q == '"' || q == '\'' {
			value, raw, _ = bytes.Cut(rest[1:], []byte{q})
		} else if i := bytes.IndexAny(rest, " \t\r\n"); i >= 0 {
			value, raw = rest[:i], rest[i:]
		} else {
			value, raw = rest, nil
		}
		if fields := bytes.Fields(name[max(0, len(name)-256):]); len(fields) > 0 {
			name = fields[len(fields)-1]
		}
		if bytes.HasPrefix(name, []byte("xmlns")) {
			continue
		}
		if len(value) > maxAttr {
			value, _ = splitTail(value[:maxAttr])
		}
		attrs = append(attrs, xmlAttr{localName(name), unescapeXML(value)})
	}
	return attrs
}

// unescapeXML resolves references: those to characters that XML does not allow too, as far as they are characters. What
// is no reference stays as it is.
func unescapeXML(raw []byte) string {
	i := bytes.IndexByte(raw, '&')
	if i < 0 {
		return string(raw)
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; i >= 0; i = bytes.IndexByte(raw, '&') {
		b.Write(raw[:i])
		raw = raw[i:]
		end := bytes.IndexByte(raw[:min(len(raw), 16)], ';')
		if end < 0 {
			b.WriteByte('&')
			raw = raw[1:]
			continue
		}
		if s, ok := reference(string(raw[1:end])); ok {
			b.WriteString(s)
			raw = raw[end+1:]
			continue
		}
		b.WriteByte('&')
		raw = raw[1:]
	}
	b.Write(raw)
	return b.String()
}

func reference(name string) (string, bool) {
	switch name {
	case "lt":
		return "<", true
	case "gt":
		return ">", true
	case "amp":
		return "&", true
	case "quot":
		return `"`, true
	case "apos":
		return "'", true
	case "nbsp":
		return "\u00a0", true
	}
	digits, ok := strings.CutPrefix(name, "#")
	if !ok || digits == "" {
		return "", false
	}
	base := 10
	if digits[0] == 'x' || digits[0] == 'X' {
		digits, base = digits[1:], 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return "", false
	}
	if n == 0 || n > utf8.MaxRune || n >= 0xd800 && n < 0xe000 || n == 0xfffe || n == 0xffff {
		return "\uFFFD", true
	}
	return string(rune(n)), true
}
