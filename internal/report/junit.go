package report

import (
	"io"

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

// JUnit reads JUnit files. Names are unique across all files that one JUnit reads. The zero value is ready.
type JUnit struct {
	names Names
}

// Read reads one file to its end and calls kase with each case, in the order of the file. An error of kase ends it. A
// file that is torn, empty or no JUnit gives the cases up to there and an error that names the line: such a file never
// means that all went well. A file of well-formed suites without any case gives no error.
func (j *JUnit) Read(r io.Reader, kase func(FileCase) error) error { return nil }

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
