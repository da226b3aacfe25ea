package plan_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

func TestOnlyRefusesAtomsThatTheJobDoesNotHave(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"tests/lock.sh": {}, "tests/deep/toll.sh": {}, "other.sh": {}}
	list := towpath.AtomSource{List: []string{"upper", "lower"}}
	glob := towpath.AtomSource{Glob: []string{"./tests/**/*.sh"}}
	command := towpath.AtomSource{Command: "go list ./..."}
	for _, c := range []struct {
		atoms towpath.AtomSource
		names string
		want  string // in the error; "" if there is none
	}{
		{list, "upper lower", ""},
		{list, "uper", "did you mean upper?"},
		{list, "upper quay", `no atom "quay"`},
		{glob, "tests/lock.sh tests/deep/toll.sh", ""},
		{glob, "other.sh", "tests/**/*.sh"},
		{glob, "tests/gone.sh", "tests/gone.sh"},
		{glob, "tests", "no file"},
		{command, "example.com/anything", ""},
	} {
		only, err := plan.Only(files, towpath.Job{Name: "test", Atoms: c.atoms}, strings.Fields(c.names))
		switch {
		case c.want == "" && (err != nil || len(only) != len(strings.Fields(c.names))):
			t.Errorf("%s: %v, %v", c.names, only, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q in it", c.names, err, c.want)
		}
	}
	if _, err := plan.Only(files, towpath.Job{Atoms: list}, []string{" "}); err == nil {
		t.Error("an empty name was taken")
	}
	if only, err := plan.Only(files, towpath.Job{Atoms: list}, []string{"upper", "upper"}); err != nil || len(only) != 1 {
		t.Errorf("one atom named twice: %v, %v", only, err)
	}
}
