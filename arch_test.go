package towpath_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/towpath/towpath"

// TestImportsFollowTheTable holds the code to the import table in docs/ARCHITECTURE.md. Names in the table's last
// column are short: session stands for internal/session.
func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	may := importTable(t, "docs/ARCHITECTURE.md")
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := short(p.ImportPath)
		allowed, ok := may[name]
		if !ok {
			t.Errorf("package %s has no row in the table", name)
		}
		seen[name] = true
		used := map[string]bool{}
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			imp = strings.TrimPrefix(short(imp), "internal/")
			used[imp] = true
			if !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s, which the table does not allow", name, imp)
			}
		}
		for _, imp := range allowed {
			if !used[imp] {
				t.Errorf("the table lets %s import %s, which it does not", name, imp)
			}
		}
	}
	for name := range may {
		if !seen[name] {
			t.Errorf("the table names %s, which is no package", name)
		}
	}
}

func short(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// importTable reads the file's first table: package, what it is, what it may import of ours.
func importTable(t *testing.T, file string) map[string][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	table := map[string][]string{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		cells := strings.Split(sc.Text(), "|")
		if len(cells) != 5 && len(table) > 0 {
			break
		}
		if len(cells) != 5 || strings.Contains(cells[1], "---") || strings.TrimSpace(cells[1]) == "package" {
			continue
		}
		name := strings.Trim(strings.TrimSpace(cells[1]), "`")
		if table[name] != nil {
			t.Errorf("%s has two rows for %s", file, name)
		}
		table[name] = strings.Fields(strings.ReplaceAll(cells[3], "–", ""))
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if len(table) == 0 {
		t.Fatalf("%s has no import table", file)
	}
	return table
}
