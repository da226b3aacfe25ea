package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheAtomsFileHoldsOneLineForEachAtomAndNoOther(t *testing.T) {
	t.Parallel()
	d, err := slotDirs(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names []string
		want  string
	}{{[]string{"a", "b c"}, "a\nb c\n"}, {[]string{"d"}, "d\n"}, {nil, ""}} {
		if err := d.writeAtoms(c.names); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(d.atoms); err != nil || string(got) != c.want {
			t.Errorf("atoms %q make the file %q, %v", c.names, got, err)
		}
	}
}

func TestDirectoriesThatWereRemovedAreMadeAgain(t *testing.T) {
	t.Parallel()
	scratch := filepath.Join(t.TempDir(), "state", "scratch")
	for range 2 {
		d, err := slotDirs(scratch, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.writeAtoms([]string{"a"}); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Dir(scratch)); err != nil {
			t.Fatal(err)
		}
	}
}
