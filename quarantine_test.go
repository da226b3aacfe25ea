package towpath_test

import (
	"strings"
	"testing"
	"time"

	"github.com/towpath/towpath"
)

func TestQuarantineCoversWhatItsPatternNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, atom, kase string
		want                bool
	}{
		{"./flaky/...", "./flaky", "", true},
		{"./flaky/...", "./flaky/a/b", "", true},
		{"./flaky/...", "flaky/a", "TestX", true},
		{"./flaky/...", "./flakyer", "", false},
		{"./flaky/...", "./a/flaky", "", false},
		{"./...", "anything", "", true},
		{"example.com/m/*", "example.com/m/a/b", "", true},
		{"*/slow", "example.com/m/slow", "", true},
		{"*/slow", "example.com/m/slower", "", false},
		{"tests/test_*.py", "tests/test_a.py", "", true},
		{"tests/test_*.py", "tests/deep/test_a.py", "", false},
		{"a", "a", "", true},
		{"a", "aa", "", false},
		{"a", "a", "TestX", true},
		{"a::TestX", "a", "", false},
		{"a::TestX", "a", "TestX", true},
		{"a::TestX", "a", "TestX/sub", false},
		{"a::TestX/...", "a", "TestX", true},
		{"a::TestX/...", "a", "TestX/sub", true},
		{"a::*", "a", "", false},
		{"a::*", "a", "TestY", true},
		{"*::TestX", "any/where", "TestX", true},
		{"t.py::TestC::test_x", "t.py", "TestC::test_x", true},
		{"a*b*c", "aXbYbZc", "", true},
		{"a*b*c", "aXbYbZ", "", false},
		{"**", "x", "", true},
		{"", "x", "", false},
		{"", "", "", false},
	} {
		got := towpath.Quarantined([]towpath.Quarantine{{Pattern: c.pattern}}, c.atom, c.kase, time.Time{})
		if got != c.want {
			t.Errorf("pattern %q on atom %q case %q: %v, want %v", c.pattern, c.atom, c.kase, got, c.want)
		}
	}
}

func TestQuarantineEndsAfterItsDate(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	entries := []towpath.Quarantine{{Pattern: "a", Until: until}}
	if !towpath.Quarantined(entries, "a", "", until) {
		t.Error("the entry must still count at its last instant")
	}
	if towpath.Quarantined(entries, "a", "", until.Add(time.Second)) {
		t.Error("the entry must not count after its last instant")
	}
	entries = append(entries, towpath.Quarantine{Pattern: "*"})
	if !towpath.Quarantined(entries, "a", "", until.Add(time.Hour)) {
		t.Error("an expired entry must not hide one in force")
	}
}

func TestQuarantinePatternOfManyStarsEndsSoon(t *testing.T) {
	t.Parallel()
	entries := []towpath.Quarantine{{Pattern: strings.Repeat("*a", 500) + "b"}}
	if towpath.Quarantined(entries, strings.Repeat("a", 5000), "", time.Time{}) {
		t.Error("a name without b must not match")
	}
}
