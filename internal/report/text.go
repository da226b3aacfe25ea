package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kept holds the first and the last half of a text that may be longer than what is to be kept of it.
type kept struct {
	max  int
	head []byte
	tail []byte
	cut  int64
}

func (k *kept) add(p string) {
	half := k.max / 2
	if room := half - len(k.head); room > 0 {
		n := min(room, len(p))
		k.head = append(k.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > half {
		k.cut += int64(len(k.tail) + len(p) - half)
		k.tail = append(k.tail[:0], p[len(p)-half:]...)
		return
	}
	k.tail = append(k.tail, p...)
	if len(k.tail) > 2*half { // not at each call: dropping bytes from the front moves the rest
		drop := len(k.tail) - half
		k.cut += int64(drop)
		k.tail = append(k.tail[:0], k.tail[drop:]...)
	}
}

// String returns what was kept, as valid UTF-8, with a line that says how much is missing.
func (k *kept) String() string { return k.within(k.max) }

func (k *kept) within(limit int) string {
	half := limit / 2
	head, tail, cut := k.head, k.tail, k.cut
	if cut == 0 && len(head)+len(tail) <= limit {
		return strings.ToValidUTF8(string(head)+string(tail), "\uFFFD")
	}
	if cut == 0 {
		head = append(append([]byte(nil), head...), tail...)
		tail = head
	}
	if len(head) > half {
		cut += int64(len(head) - half)
		head = head[:half]
	}
	if len(tail) > half {
		if k.cut == 0 {
			cut = int64(len(k.head) + len(k.tail) - 2*half)
		} else {
			cut += int64(len(tail) - half)
		}
		tail = tail[len(tail)-half:]
	}
	return strings.ToValidUTF8(fmt.Sprintf("%s\n[%d bytes cut]\n%s", head, cut, tail), "\uFFFD")
}

// bound cuts s to about limit bytes, from its middle.
func bound(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	half := limit / 2
	return strings.ToValidUTF8(fmt.Sprintf("%s\n[%d bytes cut]\n%s", s[:half], len(s)-2*half, s[len(s)-half:]), "\uFFFD")
}

// oneLine makes a message of s: without colours, on one line, not too long.
func oneLine(s string) string { return cutLine(s, maxMessage) }

func cutLine(s string, limit int) string {
	cut := false
	if most := 8 * limit; len(s) > most {
		s, cut = s[:most], true
	}
	s = plainText(strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r < 0x20 || r == 0x7f || r == 0x2028 }), " ")
	if len(s) > limit {
		s, cut = s[:limit], true
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		s = strings.ToValidUTF8(s, "")
	}
	if cut {
		s += "…"
	}
	return s
}

// cleanName makes a name of s: without colours, on one line, spaces kept, control characters as \x1b and the like.
func cleanName(s string) string {
	s = plainText(strings.ToValidUTF8(s, "\uFFFD"))
	if strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) >= 0 {
		var b strings.Builder
		for _, r := range s {
			switch {
			case r == '\n' || r == '\r' || r == '\t':
				b.WriteByte(' ')
			case r < 0x20 || r == 0x7f:
				fmt.Fprintf(&b, `\x%02x`, r)
			default:
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	s = strings.TrimSpace(s)
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return s
}

// plainText removes terminal sequences: colours and cursor movements (CSI) and titles and links (OSC).
func plainText(s string) string {
	i := strings.IndexByte(s, 0x1b)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		b.WriteString(s[:i])
		s = s[i:]
		s = s[sequence(s):]
		if i = strings.IndexByte(s, 0x1b); i < 0 {
			b.WriteString(s)
			return b.String()
		}
	}
}

// sequence returns the length of the terminal sequence at the start of s, at least 1.
func sequence(s string) int {
	if len(s) < 2 {
		return 1
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s) && i < 64; i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				return i
			}
		}
		return 2
	case ']':
		for i := 2; i < len(s) && i < 4096; i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
			if s[i] == '\n' {
				return i
			}
		}
		return 2
	}
	return 1
}
