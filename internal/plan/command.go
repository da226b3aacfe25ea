package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// FromCommand makes the job that towpath run -- COMMAND describes. A word that contains {} takes an atom, so the command
// starts once per atom. Without any {} and without atoms the command itself is the one atom.
func FromCommand(argv []string, atoms towpath.AtomSource) (towpath.Job, error) {
	if len(argv) == 0 || argv[0] == "" {
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "there is no command after --: add one, as in towpath run -- make test")
	}
	for _, word := range argv {
		if strings.ContainsRune(word, 0) {
			return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "the command after -- holds a zero byte in %q", word)
		}
	}
	sources := 0
	for _, given := range []bool{atoms.Command != "", len(atoms.Glob) > 0, len(atoms.List) > 0} {
		if given {
			sources++
		}
	}
	switch {
	case sources > 1:
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "the atoms come from several sources: give one of a command, a glob or a list")
	case sources == 0 && takesAtom(argv):
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage, "%s takes an atom in {}, and no atoms were given: say which", quoteArgv(argv))
	}
	if err := checkAtoms(atoms); err != nil {
		return towpath.Job{}, err
	}
	j := Defaults()
	j.Name = path.Base(argv[0])
	j.Argv = slices.Clone(argv)
	j.Atoms = atoms
	j.PerAtom = startsPerAtom(j)
	if sources == 0 {
		j.Atoms = towpath.AtomSource{List: []string{quoteArgv(argv)}}
		j.PerAtom = true
	}
	return j, nil
}

// checkAtoms holds atoms that did not come from a file against the rules of the file.
func checkAtoms(atoms towpath.AtomSource) error {
	for _, g := range atoms.Glob {
		if wrong := wrongPattern(g); wrong != "" {
			return towpath.Errorf(towpath.CodeUsage, "the pattern %q %s", g, wrong)
		}
	}
	seen := make(map[string]bool, len(atoms.List))
	for _, a := range atoms.List {
		switch {
		case strings.TrimSpace(a) == "":
			return towpath.Errorf(towpath.CodeUsage, "the list of atoms holds an empty one: leave it out")
		case strings.ContainsAny(a, "\x00\n\r"):
			return towpath.Errorf(towpath.CodeUsage, "the atom %q must be one line without zero bytes", a)
		case seen[a]:
			return towpath.Errorf(towpath.CodeUsage, "the atom %q is given twice: each has one result", a)
		}
		seen[a] = true
	}
	return nil
}

// quoteArgv writes a command as one line for people, with words quoted as for a shell.
func quoteArgv(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = word
		if word == "" || strings.ContainsFunc(word, special) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return clip(oneLine(strings.Join(words, " ")))
}

func special(c rune) bool {
	return !strings.ContainsRune("%+,-./:=@_{}", c) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}
