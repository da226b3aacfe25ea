package report

import "bytes"

// maxLine is the longest line that is looked at as a whole. What is longer is no event and no result, and passes through
// in pieces.
const maxLine = 1 << 20

// lines cuts a stream into lines. It holds at most max bytes.
type lines struct {
	max  int
	line func(line []byte)              // a whole line, without its end
	long func(piece []byte, first bool) // a piece of a line that is too long, its newline included

	buf     []byte
	tooLong bool
}

func (l *lines) write(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		switch {
		case l.tooLong:
			if end >= 0 {
				piece = p[:end+1]
				l.tooLong = false
			}
			l.long(piece, false)
		case len(l.buf)+len(piece) > l.max:
			first := true
			if len(l.buf) > 0 {
				l.long(l.buf, true)
				l.buf, first = l.buf[:0], false
			}
			if end >= 0 {
				piece = p[:end+1]
			}
			l.tooLong = end < 0
			l.long(piece, first)
		case end < 0:
			l.buf = append(l.buf, piece...)
		case len(l.buf) == 0:
			l.line(bytes.TrimSuffix(piece, []byte("\r")))
		default:
			l.buf = append(l.buf, piece...)
			whole := bytes.TrimSuffix(l.buf, []byte("\r"))
			l.buf = l.buf[:0]
			l.line(whole)
		}
		if end < 0 {
			return
		}
		p = p[end+1:]
	}
}

// close hands on a last line without an end.
func (l *lines) close() {
	if len(l.buf) > 0 {
		last := l.buf
		l.buf = nil
		l.line(last)
	}
}
