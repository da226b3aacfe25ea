package e2e

import (
	"path/filepath"
	"testing"
)

// TestTowpathTestsItself runs some of Towpath's own packages, in its own repository, which is its first suite. The tests
// of those packages start no towpath themselves, so this ends.
func TestTowpathTestsItself(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p.dir = root
	compareWithGoTest(t, p, []string{
		"github.com/towpath/towpath/internal/plan", "github.com/towpath/towpath/internal/session",
		"github.com/towpath/towpath/internal/wire", "github.com/towpath/towpath/client", "github.com/towpath/towpath/cmd/towpath",
	})
}
