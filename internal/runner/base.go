package runner

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// withArgs returns the job's own command with other arguments in place of the atoms. It cannot if the command does not
// carry the atoms as its last arguments: they were too many and went by file, or argv has them elsewhere.
func withArgs(s Spec, args []string) (Command, bool) {
	names := unitNames(s.Units)
	at := len(s.Base.Argv) - len(names)
	if len(s.Job.Argv) > 0 || at < 1 || !slices.Equal(s.Base.Argv[at:], names) {
		return s.Base, false
	}
	c := s.Base
	c.Argv = slices.Concat(s.Base.Argv[:at], args)
	return c, true
}

func unitNames(units []towpath.OfferedUnit) []string {
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.Name
	}
	return names
}

// passed stands for "$@" among the words of plainWords.
const passed = "\x00@"

// plainWords splits shell text that is one simple command: words, quoted or not, without anything that a shell would
// expand but "$@", which comes out as the word passed. Any other text is not plain.
func plainWords(text string) (words []string, plain bool) {
	var word strings.Builder
	begun := false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	text = strings.TrimSpace(text)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ' || c == '\t':
			end()
		case c == '\'':
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				return nil, false
			}
			word.WriteString(text[i+1 : i+1+n])
			begun = true
			i += n + 1
		case c == '"':
			n := strings.IndexByte(text[i+1:], '"')
			if n < 0 {
				return nil, false
			}
			inner := text[i+1 : i+1+n]
			if inner == "$@" && !begun && (i+n+2 == len(text) || text[i+n+2] == ' ') {
				inner = passed
			} else if strings.ContainsAny(inner, "$`\\!\x00") {
				return nil, false
			}
			word.WriteString(inner)
			begun = true
			i += n + 1
		case strings.IndexByte("$`\\|&;<>()*?[]{}!~#\n\r\x00", c) >= 0:
			return nil, false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return words, len(words) > 0
}

// tail is a writer that keeps the end of what was written, within keep bytes, and passes everything on.
type tail struct {
	keep int
	to   func(p []byte)
	held []byte
}

func (t *tail) Write(p []byte) (int, error) {
	if len(p) >= t.keep {
		t.held = append(t.held[:0], p[len(p)-t.keep:]...)
	} else {
		if over := len(t.held) + len(p) - t.keep; over > 0 {
			t.held = append(t.held[:0], t.held[over:]...)
		}
		t.held = append(t.held, p...)
	}
	if t.to != nil {
		t.to(p)
	}
	return len(p), nil
}

var _ io.Writer = (*tail)(nil)

// lastLine is the last line that says something.
func lastLine(s string) string {
	s = strings.TrimRight(plain(strings.ToValidUTF8(s, "�")), " \t\r\n")
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return clip(strings.TrimSpace(s), 300)
}

// because joins how a command ended with the last thing that it said.
func because(end Ended, said string) string {
	reason := end.Reason
	if reason == "" {
		reason = fmt.Sprintf("exit status %d", end.ExitCode)
		if end.Signal != "" {
			reason = "killed by " + end.Signal
		}
	}
	if said != "" && end.Stopped == "" {
		reason += ": " + said
	}
	return reason
}

// solo is the unit to which a command's own output belongs: its only one, or none.
func solo(units []towpath.OfferedUnit) int {
	if len(units) == 1 {
		return 0
	}
	return -1
}
