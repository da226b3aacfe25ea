package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// FileCase is one case of a JUnit file.
type FileCase struct {
	// Case.Name is the class (or, without one, the names of the enclosing suites) and the name, joined with " > " and
	// unique; Case.Select is empty; Case.File is the file attribute of the case or of the nearest suite.
	towpath.Case
	Suites []string // names of the enclosing suites, from outside
	Class  string   // classname
	Title  string   // name, as it is in the file but for colours
	Line   int      // line attribute; 0: none
}

// JUnit reads JUnit files, in all dialects alike: of pytest, Jest, Vitest, Surefire, RSpec, PHPUnit, gotestsum, Node,
// CTest, GoogleTest and their kin. Only elements count, never the totals that a file states. Names are unique across all
// files that one JUnit reads. The zero value is ready.
//
// A case with a failure or an error, or with a status that says so, failed, however many there are; a failure beside
// <skipped type="todo"> is Node's todo, and skipped. One with a flakyFailure or flakyError alone is flaky. Two cases of
// one name stay two; only if the second follows the first at once and says that it failed on teardown, as pytest does,
// are they one that failed.
type JUnit struct {
	names Names
}

// Read reads one file to its end and calls kase with each case, in the order of the file. An error of kase ends it. A
// file that is torn, empty or no JUnit gives the cases up to there and an error that names the line: such a file never
// means that all went well. A file of well-formed suites without any case gives no error.
func (j *JUnit) Read(r io.Reader, kase func(FileCase) error) error {
	f := &junitFile{x: newXMLReader(r), names: &j.names, kase: kase, named: map[string]int{}}
	return f.read()
}

// ReadJUnit reads one file whole. With an error come the cases up to there.
func ReadJUnit(r io.Reader) ([]FileCase, error) {
	var cases []FileCase
	var j JUnit
	err := j.Read(r, func(c FileCase) error {
		cases = append(cases, c)
		return nil
	})
	return cases, err
}

// Plain returns the cases without what only JUnit knows.
func Plain(cases []FileCase) []towpath.Case {
	plain := make([]towpath.Case, len(cases))
	for i, c := range cases {
		plain[i] = c.Case
	}
	return plain
}

// junitFile is the state of one reading.
type junitFile struct {
	x     *xmlReader
	names *Names
	kase  func(FileCase) error

	stack  []junitElement
	named  map[string]int // how many of the stack have that name
	suites []junitSuite
	root   bool       // a suite or a case was seen
	other  string     // the first element, if it is neither
	broken error      // the first end without its start
	open   *junitCase // the case being read
	part   *junitPart // the failure, output or skip being read
	last   *junitCase // the case before, until it is known that the next is not its teardown
}

type junitElement struct {
	name string
	line int
}

type junitSuite struct{ name, file string }

// maxSuites is how many of the enclosing suites make a name: a case costs no more however deep it stands.
const maxSuites = 64

// junitCase is a case that is being put together.
type junitCase struct {
	c       FileCase
	depth   int // of its element
	status  towpath.CaseState
	skip    *junitPart
	bad     []*junitPart
	flaky   []*junitPart
	out     []*junitPart
	inSuite bool // a failure of a suite itself
}

// junitPart is one child of a case.
type junitPart struct {
	kind    string
	message string
	typ     string
	text    kept
	depth   int
}

func (f *junitFile) read() error {
	for {
		t, err := f.x.next()
		if err != nil {
			return f.end(err)
		}
		switch t.kind {
		case xmlStart:
			if len(f.stack) >= maxXMLDepth {
				return f.end(fmt.Errorf("elements nest deeper than %d", maxXMLDepth))
			}
			f.stack = append(f.stack, junitElement{t.name, f.x.line})
			f.named[t.name]++
			if err := f.start(t); err != nil {
				return err
			}
		case xmlEnd:
			if err := f.close(t.name); err != nil {
				return err
			}
		case xmlChars:
			if f.part != nil {
				f.part.text.add(t.text)
			}
		}
	}
}

// end says what the end of the input, or an error in its midst, means.
func (f *junitFile) end(err error) error {
	if f.open != nil {
		k := f.open
		f.open = nil
		if len(k.bad) == 0 && k.status != towpath.CaseFailed {
			k.status = towpath.CaseUnfinished
		}
		if err := f.keep(k); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, errTorn):
		return fmt.Errorf("line %d: %w", f.x.line, err)
	case len(f.stack) > 0:
		open := f.stack[len(f.stack)-1]
		return fmt.Errorf("line %d: the file ends inside <%s> of line %d", f.x.line, open.name, open.line)
	case errors.Is(err, errTorn):
		return fmt.Errorf("line %d: %w", f.x.line, err)
	case f.broken != nil:
		return f.broken
	case !f.root && f.other != "":
		return fmt.Errorf("line %d: this is no JUnit: <%s> and no testsuite", f.x.line, f.other)
	case !f.root:
		return fmt.Errorf("line %d: there is no testsuite", f.x.line)
	}
	return nil
}

func (f *junitFile) start(t xmlToken) error {
	switch t.name {
	case "testsuites":
		f.root = true
	case "testsuite":
		f.root = true
		if f.open == nil {
			s := junitSuite{cleanName(t.attr("name")), cleanName(t.attr("file", "filepath"))}
			if s.file == "" && len(f.suites) > 0 {
				s.file = f.suites[len(f.suites)-1].file
			}
			f.suites = append(f.suites, s)
		}
	case "testcase":
		f.root = true
		if f.open != nil { // its end is missing
			if err := f.keep(f.open); err != nil {
				return err
			}
		}
		f.part = nil
		f.open = f.begin(t)
	case "failure", "error", "skipped", "disabled", "ignored", "flakyFailure", "flakyError", "rerunFailure", "rerunError",
		"system-out", "system-err":
		f.child(t)
	default:
		if !f.root && f.other == "" {
			f.other = t.name
		}
	}
	return nil
}

// child begins a direct child of a case, or a failure of a suite itself.
func (f *junitFile) child(t xmlToken) {
	depth := len(f.stack)
	part := &junitPart{kind: t.name, message: t.attr("message"), typ: t.attr("type"), depth: depth, text: kept{max: maxDetail}}
	if f.open == nil {
		if (t.name == "failure" || t.name == "error") && len(f.suites) > 0 && f.stack[depth-2].name == "testsuite" {
			k := &junitCase{c: f.placed(), depth: depth, inSuite: true, bad: []*junitPart{part}}
			k.c.Title = f.suites[len(f.suites)-1].name
			k.c.Name = cmp.Or(k.c.Title, "unnamed suite")
			f.open, f.part = k, part
		}
		return
	}
	if depth != f.open.depth+1 {
		return
	}
	f.part = part
	switch t.name {
	case "failure", "error":
		f.open.bad = append(f.open.bad, part)
	case "flakyFailure", "flakyError":
		f.open.flaky = append(f.open.flaky, part)
	case "skipped", "disabled", "ignored":
		f.open.skip = part
	default:
		f.open.out = append(f.open.out, part)
	}
	if most := 100; len(f.open.bad) > most || len(f.open.flaky) > most || len(f.open.out) > most {
		f.open.bad, f.open.flaky, f.open.out = first(f.open.bad, most), first(f.open.flaky, most), first(f.open.out, most)
	}
}

func first(parts []*junitPart, most int) []*junitPart { return parts[:min(len(parts), most)] }

// placed is a case where the reader stands.
func (f *junitFile) placed() FileCase {
	var c FileCase
	for _, s := range f.suites[:min(len(f.suites), maxSuites)] {
		if s.name != "" {
			c.Suites = append(c.Suites, s.name)
		}
	}
	if len(f.suites) > 0 {
		c.File = f.suites[len(f.suites)-1].file
	}
	return c
}

func (f *junitFile) begin(t xmlToken) *junitCase {
	k := &junitCase{c: f.placed(), depth: len(f.stack)}
	k.c.Title = cleanName(t.attr("name"))
	k.c.Class = cleanName(t.attr("classname", "class", "className"))
	if k.c.Class == nodeClass { // Node escapes quotes twice
		k.c.Title = strings.ReplaceAll(k.c.Title, "&quot;", `"`)
	}
	if file := t.attr("file", "filepath"); file != "" {
		k.c.File = cleanName(file)
	}
	k.c.Line, _ = strconv.Atoi(t.attr("line", "lineno")) // none: 0
	k.c.Duration = junitTime(t.attr("time", "duration"))
	k.c.Name = caseName(k.c)
	for _, word := range []string{t.attr("status"), t.attr("result")} {
		switch strings.ToLower(word) {
		case "fail", "failed", "failure", "error", "errored", "broken", "timeout", "timedout", "crashed", "aborted":
			k.status = towpath.CaseFailed
		case "notrun", "not_run", "notexecuted", "disabled", "suppressed", "skipped", "skip", "ignored", "pending", "inactive":
			if k.status == "" {
				k.status = towpath.CaseSkipped
			}
		}
	}
	return k
}

// nodeClass is the class that Node gives to every case.
const nodeClass = "test"

// caseName is the name of a case within an atom: where it belongs, and its title.
func caseName(c FileCase) string {
	where := c.Class
	if where == "" || where == nodeClass {
		where = strings.Join(c.Suites, " > ")
	}
	switch {
	case c.Title == "" && where == "":
		return "unnamed"
	case c.Title == "":
		return where
	case where == "" || c.Title == where || strings.HasPrefix(c.Title, where+" "):
		return c.Title
	}
	return cleanName(where + " > " + c.Title)
}

// close ends the innermost open element of that name.
func (f *junitFile) close(name string) error {
	i := len(f.stack) - 1
	if f.named[name] == 0 {
		i = -1
	}
	for i >= 0 && f.stack[i].name != name {
		i--
	}
	if i != len(f.stack)-1 && f.broken == nil {
		f.broken = fmt.Errorf("line %d: </%s> ends nothing that is open", f.x.line, name)
	}
	if i < 0 {
		return nil
	}
	for len(f.stack) > i {
		depth := len(f.stack)
		top := f.stack[depth-1].name
		if f.named[top]--; f.named[top] == 0 {
			delete(f.named, top)
		}
		f.stack = f.stack[:depth-1]
		if f.part != nil && f.part.depth == depth {
			f.part = nil
		}
		if f.open != nil && f.open.depth == depth {
			k := f.open
			f.open = nil
			if err := f.keep(k); err != nil {
				return err
			}
		}
		if top == "testsuite" && len(f.suites) > 0 && f.open == nil {
			f.suites = f.suites[:len(f.suites)-1]
		}
	}
	return nil
}

// keep holds a complete case until the next is known.
func (f *junitFile) keep(k *junitCase) error {
	if f.last != nil && f.last.c.Name == k.c.Name && f.last.c.File == k.c.File && k.teardown() {
		f.last.bad = append(f.last.bad, k.bad...)
		f.last.out = append(f.last.out, k.out...)
		f.last.c.Duration += k.c.Duration
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.last = k
	return nil
}

// teardown says whether this is what pytest writes of a test whose clean-up failed, after what it wrote of the test.
func (k *junitCase) teardown() bool {
	return len(k.bad) == 1 && k.bad[0].kind == "error" && strings.HasPrefix(k.bad[0].message, "failed on teardown")
}

func (f *junitFile) flush() error {
	k := f.last
	if k == nil {
		return nil
	}
	f.last = nil
	k.settle()
	k.c.Name = f.names.Unique(k.c.Name)
	return f.kase(k.c)
}

// settle decides the case's state and texts.
func (k *junitCase) settle() {
	todo := k.skip != nil && k.skip.typ == "todo"
	switch {
	case k.status == towpath.CaseUnfinished:
		k.c.State, k.c.Message = towpath.CaseUnfinished, "the file ends inside this case"
	case len(k.bad) > 0 && !todo || k.status == towpath.CaseFailed:
		k.c.State = towpath.CaseFailed
	case k.skip != nil || k.status == towpath.CaseSkipped:
		k.c.State = towpath.CaseSkipped
		if k.skip != nil {
			k.c.Message = k.skip.line("")
			if k.skip.message == "true" { // Node says no more
				k.c.Message = oneLine(k.skip.typ)
			}
		}
	case len(k.flaky) > 0:
		k.c.State = towpath.CaseFlaky
		k.c.Message = k.flaky[0].line(k.c.Class)
	default:
		k.c.State = towpath.CasePassed
	}
	var texts []string
	limit := maxDetail
	switch k.c.State {
	case towpath.CaseFailed, towpath.CaseFlaky:
		for _, p := range slices.Concat(k.bad, k.flaky) {
			if k.c.Message == "" {
				k.c.Message = p.line(k.c.Class)
			}
			texts = append(texts, p.whole())
		}
		if k.c.Message == "" {
			k.c.Message = "failed without a message"
		}
	case towpath.CasePassed:
		limit = maxPassed
	case towpath.CaseSkipped, towpath.CaseQuarantined, towpath.CaseUnfinished:
	}
	for _, p := range k.out {
		if text := p.whole(); text != "" {
			texts = append(texts, p.kind+":\n"+text)
		}
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	k.c.Detail = bound(strings.Join(texts, "\n\n"), limit)
}

// line is the part's message, else the first line of its text that is not just the name of the case, as PHPUnit writes
// first, else its type.
func (p *junitPart) line(class string) string {
	text := plainText(p.text.String())
	first := firstLine(text)
	if class != "" && strings.HasPrefix(first, class+"::") {
		_, rest, _ := strings.Cut(text, "\n")
		first = cmp.Or(firstLine(rest), first)
	}
	for _, s := range []string{p.message, first, p.typ} {
		if s = oneLine(s); s != "" {
			return s
		}
	}
	return ""
}

// whole is the part's text, with its message before it if that is not in it.
func (p *junitPart) whole() string {
	text := strings.TrimRight(cleanText(p.text.String()), " \t\r\n")
	if strings.TrimSpace(text) == "" {
		text = ""
	}
	message := strings.TrimSpace(cleanText(p.message))
	switch {
	case message == "" || strings.Contains(text, message):
		return strings.TrimLeft(text, "\r\n")
	case text == "":
		return message
	}
	return message + "\n" + strings.TrimLeft(text, "\r\n")
}

// cleanText removes colours and makes other control characters visible as such.
func cleanText(s string) string {
	s = plainText(strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
}

// junitTime reads seconds, as 0.1, 1,234.5 or 3s.
func junitTime(s string) time.Duration {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(s), "s"), ",", ""), 64)
	if err != nil {
		return 0
	}
	return seconds(n)
}
