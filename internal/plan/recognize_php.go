package plan

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// recognizePHPUnit finds a project that is tested with PHPUnit. An atom is a test file; PHPUnit takes one at a time.
func recognizePHPUnit(fsys fs.FS) (*Candidate, error) {
	sign := ""
	for _, name := range []string{"phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"} {
		if sign == "" && exists(fsys, name) {
			sign = name
		}
	}
	if sign == "" && strings.Contains(text(fsys, "composer.json"), "phpunit/phpunit") {
		sign = "composer.json"
	}
	if sign == "" {
		return nil, nil
	}
	var tops []string
	err := look(fsys, ".", func(name string) bool {
		if top, _, below := strings.Cut(name, "/"); strings.HasSuffix(name, "Test.php") {
			if !below {
				top = "."
			}
			if !slices.Contains(tops, top) {
				tops = append(tops, top)
			}
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("look for PHP tests: %w", err)
	}
	globs := []string{}
	for _, top := range tops {
		if top == "." {
			globs = append(globs, "*Test.php")
		} else {
			globs = append(globs, path.Join(top, "**/*Test.php"))
		}
	}
	if len(globs) == 0 {
		globs = []string{"tests/**/*Test.php"}
	}
	bin := "phpunit"
	if strings.Contains(text(fsys, "composer.json"), "phpunit/phpunit") || exists(fsys, "vendor/bin/phpunit") {
		bin = "vendor/bin/phpunit"
	}
	return &Candidate{
		Kind: "phpunit",
		Why:  sign,
		Job:  WithBatch(recognized(towpath.AtomSource{Glob: globs}, bin+` "$@"`, towpath.ReportPHPUnit), towpath.Batch{Count: 1}),
	}, nil
}
