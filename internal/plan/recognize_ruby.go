package plan

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/towpath/towpath"
)

// recognizeRSpec finds a project that is tested with RSpec. An atom is a spec file.
func recognizeRSpec(fsys fs.FS) (*Candidate, error) {
	sign := ""
	if exists(fsys, ".rspec") {
		sign = ".rspec"
	} else {
		err := look(fsys, "spec", func(name string) bool {
			if strings.HasSuffix(name, "_spec.rb") {
				sign = name
			}
			return sign == ""
		})
		if err != nil {
			return nil, fmt.Errorf("look for specs: %w", err)
		}
	}
	if sign == "" {
		return nil, nil
	}
	run := `rspec "$@"`
	if strings.Contains(text(fsys, "Gemfile"), "rspec") || strings.Contains(text(fsys, "Gemfile.lock"), "rspec") {
		run = `bundle exec rspec "$@"`
	}
	if exists(fsys, "bin/rspec") {
		run = `bin/rspec "$@"`
	}
	return &Candidate{
		Kind: "rspec",
		Why:  sign,
		Job:  recognized(towpath.AtomSource{Glob: []string{"spec/**/*_spec.rb"}}, run, towpath.ReportRSpec),
	}, nil
}
