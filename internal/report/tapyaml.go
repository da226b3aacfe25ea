package report

import (
	"strconv"
	"strings"
	"time"
)

// tapYAML reads the diagnostics of a result: the few plain keys that say something about a case, and the text as it is.
// It is no YAML parser, so that no diagnostics, however broken, are lost or refused.
type tapYAML struct {
	indent int
	done   bool
	text   kept
	values map[string]string
	key    string // whose block scalar is being read
	block  kept
}

func newTAPYAML(indent int) *tapYAML {
	return &tapYAML{indent: indent, text: kept{max: maxDetail}, values: map[string]string{}}
}

// line takes a line and says whether it belongs to the block.
func (y *tapYAML) line(line string) bool {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if text != "" && indent < y.indent {
		y.endBlock()
		return false
	}
	if indent == y.indent && strings.TrimRight(text, " \t") == "..." {
		y.endBlock()
		y.done = true
		return true
	}
	if len(line) > y.indent {
		line = line[y.indent:]
	} else {
		line = ""
	}
	y.text.add(line + "\n")
	if text == "" || indent > y.indent {
		if y.key != "" {
			y.block.add(strings.TrimSpace(line) + "\n")
		}
		return true
	}
	y.endBlock()
	key, value, ok := strings.Cut(text, ":")
	if !ok || !tapKeys[key] {
		return true
	}
	value = strings.TrimSpace(value)
	if value == "" || value[0] == '|' || value[0] == '>' {
		y.key, y.block = key, kept{max: 4 << 10}
		return true
	}
	y.set(key, unquoteYAML(value))
	return true
}

// tapKeys are the keys of which the value is wanted.
var tapKeys = map[string]bool{
	"type": true, "duration_ms": true, "error": true, "message": true, "location": true, "file": true,
}

func (y *tapYAML) set(key, value string) {
	if _, twice := y.values[key]; !twice {
		y.values[key] = value
	}
}

func (y *tapYAML) endBlock() {
	if y.key != "" {
		y.set(y.key, strings.TrimSpace(y.block.String()))
		y.key = ""
	}
}

func (y *tapYAML) value(key string) string {
	y.endBlock()
	return y.values[key]
}

func (y *tapYAML) duration() time.Duration {
	ms, err := strconv.ParseFloat(y.value("duration_ms"), 64)
	if err != nil {
		return 0
	}
	return seconds(ms / 1000)
}

// file is the file of a location such as /a/b.js:3:1, or what file says.
func (y *tapYAML) file() string {
	at := y.value("location")
	if at == "" {
		return cleanName(y.value("file"))
	}
	for range 2 {
		i := strings.LastIndexByte(at, ':')
		if i > 1 && leadingDigits(at[i+1:]) == at[i+1:] && at[i+1:] != "" {
			at = at[:i]
		}
	}
	return cleanName(at)
}

func (y *tapYAML) detail() string { return strings.TrimRight(y.text.String(), "\n") }

func unquoteYAML(s string) string {
	if len(s) < 2 || s[len(s)-1] != s[0] {
		return s
	}
	switch s[0] {
	case '\'':
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	case '"':
		if plain, err := strconv.Unquote(s); err == nil {
			return plain
		}
		return s[1 : len(s)-1]
	}
	return s
}
