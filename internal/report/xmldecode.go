package report

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeXML returns r as UTF-8, by its byte order mark or else by the encoding that its first line declares. What
// declares an encoding unknown here is read as UTF-8.
func decodeXML(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, xmlBuffer)
	head, _ := b.Peek(256) // an error comes again with the first read
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = b.Discard(3) // it was peeked at
		return b
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("<\x00")):
		return &wideReader{r: b, low: 0, high: 1}
	case bytes.HasPrefix(head, []byte("\xfe\xff")), bytes.HasPrefix(head, []byte("\x00<")):
		return &wideReader{r: b, low: 1, high: 0}
	}
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return b
	}
	declaration, _, _ := bytes.Cut(head, []byte("?>"))
	_, after, ok := bytes.Cut(declaration, []byte("encoding"))
	if !ok {
		return b
	}
	name := strings.ToLower(strings.Trim(strings.TrimSpace(strings.TrimLeft(string(after), " =")), `"'`))
	name, _, _ = strings.Cut(name, `"`)
	name, _, _ = strings.Cut(name, `'`)
	switch name {
	case "iso-8859-1", "iso_8859-1", "latin1", "latin-1", "iso-8859-15", "windows-1252", "cp1252":
		return &byteReader{r: b}
	}
	return b
}

// byteReader reads Latin-1 with the additions of Windows, as browsers do.
type byteReader struct {
	r    *bufio.Reader
	rest []byte
}

var windows1252 = [32]rune{
	0x20ac, 0xfffd, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0xfffd, 0x017d, 0xfffd,
	0xfffd, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0xfffd, 0x017e, 0x0178,
}

func (d *byteReader) Read(p []byte) (int, error) {
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	for n < len(p) {
		if n > 0 && d.r.Buffered() == 0 {
			return n, nil
		}
		b, err := d.r.ReadByte()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		c := rune(b)
		if c >= 0x80 && c < 0xa0 {
			c = windows1252[c-0x80]
		}
		n, d.rest = put(p, n, c)
	}
	return n, nil
}

// put encodes c at p[n:] and returns what did not fit.
func put(p []byte, n int, c rune) (end int, rest []byte) {
	if c < utf8.RuneSelf {
		p[n] = byte(c)
		return n + 1, nil
	}
	var enc [utf8.UTFMax]byte
	size := utf8.EncodeRune(enc[:], c)
	fit := copy(p[n:], enc[:size])
	return n + fit, bytes.Clone(enc[fit:size])
}

// wideReader reads UTF-16.
type wideReader struct {
	r         *bufio.Reader
	low, high int // where the bytes of a unit stand
	rest      []byte
	begun     bool
}

func (d *wideReader) Read(p []byte) (int, error) {
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	for n < len(p) {
		if n > 0 && d.r.Buffered() < 4 {
			return n, nil
		}
		c, err := d.unit()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		if utf16.IsSurrogate(c) {
			if second, err := d.r.Peek(2); err == nil {
				if both := utf16.DecodeRune(c, rune(second[d.low])|rune(second[d.high])<<8); both != utf8.RuneError {
					_, _ = d.r.Discard(2) // it was peeked at
					c = both
				}
			}
		}
		if !d.begun {
			d.begun = true
			if c == 0xfeff {
				continue
			}
		}
		n, d.rest = put(p, n, c)
	}
	return n, nil
}

func (d *wideReader) unit() (rune, error) {
	var b [2]byte
	if _, err := io.ReadFull(d.r, b[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return 0, io.EOF
		}
		return 0, err
	}
	return rune(b[d.low]) | rune(b[d.high])<<8, nil
}
