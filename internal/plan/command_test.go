package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

func TestCommandBecomesAJob(t *testing.T) {
	t.Parallel()
	ab := towpath.AtomSource{List: []string{"a", "b"}}
	for _, c := range []struct {
		argv    []string
		atoms   towpath.AtomSource
		name    string
		want    towpath.AtomSource
		perAtom bool
	}{
		{[]string{"make", "test"}, towpath.AtomSource{}, "make", towpath.AtomSource{List: []string{"make test"}}, true},
		{[]string{"/usr/bin/sh", "-c", "echo 'x'; exit 1"}, towpath.AtomSource{}, "sh", towpath.AtomSource{List: []string{`/usr/bin/sh -c 'echo '\''x'\''; exit 1'`}}, true},
		{[]string{"./t.sh", "--file={}"}, ab, "t.sh", ab, true},
		{[]string{"./t.sh"}, ab, "t.sh", ab, false},
		{[]string{"cat", "{}"}, towpath.AtomSource{Glob: []string{"*.txt"}}, "cat", towpath.AtomSource{Glob: []string{"*.txt"}}, true},
	} {
		j, err := plan.FromCommand(c.argv, c.atoms)
		if err != nil {
			t.Errorf("%q: %v", c.argv, err)
			continue
		}
		want := plan.Defaults()
		want.Name, want.Atoms, want.Argv, want.PerAtom = c.name, c.want, c.argv, c.perAtom
		if diff := cmp.Diff(want, j); diff != "" {
			t.Errorf("%q: %s", c.argv, diff)
		}
	}
}

func TestCommandThatCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv  []string
		atoms towpath.AtomSource
		want  string
	}{
		{nil, towpath.AtomSource{}, "there is no command after --: add one, as in towpath run -- make test"},
		{[]string{""}, towpath.AtomSource{}, "there is no command after --: add one, as in towpath run -- make test"},
		{[]string{"cat", "{}"}, towpath.AtomSource{}, "cat {} takes an atom in {}, and no atoms were given: say which"},
		{[]string{"cat", "a\x00"}, towpath.AtomSource{}, `the command after -- holds a zero byte in "a\x00"`},
		{[]string{"cat"}, towpath.AtomSource{Command: "ls", Glob: []string{"*"}}, "the atoms come from several sources: give one of a command, a glob or a list"},
		{[]string{"cat"}, towpath.AtomSource{Glob: []string{"[a"}}, `the pattern "[a" is not a valid pattern: close every [ and {`},
		{[]string{"cat"}, towpath.AtomSource{List: []string{"a", " "}}, "the list of atoms holds an empty one: leave it out"},
		{[]string{"cat"}, towpath.AtomSource{List: []string{"a\nb"}}, `the atom "a\nb" must be one line without zero bytes`},
		{[]string{"cat"}, towpath.AtomSource{List: []string{"a", "b", "a"}}, `the atom "a" is given twice: each has one result`},
	} {
		_, err := plan.FromCommand(c.argv, c.atoms)
		if err == nil || err.Error() != c.want || towpath.CodeOf(err) != towpath.CodeUsage {
			t.Errorf("%q %+v: %v, want %s", c.argv, c.atoms, err, c.want)
		}
	}
}

func TestOtherBatchesChangeHowOftenTheCommandStarts(t *testing.T) {
	t.Parallel()
	ab := towpath.AtomSource{List: []string{"a", "b"}}
	each, err := plan.FromCommand([]string{"cat", "{}"}, ab)
	if err != nil {
		t.Fatal(err)
	}
	all, err := plan.FromCommand([]string{"cat"}, ab)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job   towpath.Job
		count int
		want  bool
	}{{each, 0, true}, {each, 5, true}, {all, 0, false}, {all, 1, true}, {all, 5, false}} {
		got := plan.WithBatch(c.job, towpath.Batch{Count: c.count})
		if got.PerAtom != c.want || got.Batch.Count != c.count {
			t.Errorf("%q in batches of %d: per atom %v, want %v", c.job.Argv, c.count, got.PerAtom, c.want)
		}
	}
}
