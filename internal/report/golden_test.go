package report_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestSamplesOfRealRunnersReadAsTheirGoldenFilesSay reads what go, node, pytest, PHPUnit and Perl wrote of small projects.
func TestSamplesOfRealRunnersReadAsTheirGoldenFilesSay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/samples/*")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		read++
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, chunk := range []int{len(in), 1, 7} {
				text := told(t, filepath.Ext(file), in, chunk)
				if got != "" && got != text {
					t.Errorf("pieces of %d bytes read differently:\n%s", chunk, cmp.Diff(got, text))
				}
				got = text
			}
			golden := file + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-golden +got:\n%s", diff)
			}
		})
	}
	if read == 0 {
		t.Fatal("there is no sample")
	}
}

// told reads in with the reader for ext, in pieces of chunk bytes, and tells what it heard.
func told(t *testing.T, ext string, in []byte, chunk int) string {
	t.Helper()
	var b strings.Builder
	tell := func(c towpath.Case) {
		fmt.Fprintf(&b, "  %-10s %q", c.State, c.Name)
		if c.Select != "" && c.Select != c.Name {
			fmt.Fprintf(&b, " select=%q", c.Select)
		}
		if c.File != "" {
			fmt.Fprintf(&b, " file=%s", c.File)
		}
		if c.Message != "" {
			fmt.Fprintf(&b, ": %s", c.Message)
		}
		b.WriteByte('\n')
	}
	switch ext {
	case ".gotest":
		cases := map[string][]towpath.Case{}
		g := report.NewGoTest(report.GoEvents{
			Case: func(pkg string, c towpath.Case) { cases[pkg] = append(cases[pkg], c) },
			Result: func(p report.GoPackage) {
				fmt.Fprintf(&b, "%s %s: %q\n", p.Outcome, p.Name, p.Reason)
				var facts []string
				for _, f := range []struct {
					name string
					is   bool
				}{
					{"cached", p.Cached},
					{"no_test_files", p.NoTestFiles},
					{"no_tests", p.NoTests},
					{"silent", p.Silent},
					{"build_failed", p.BuildFailed},
					{"torn", p.Torn},
					{"timed_out", p.TimedOut},
					{"crashed", p.Panic != ""},
					{"broken_off", !p.Ended},
				} {
					if f.is {
						facts = append(facts, f.name)
					}
				}
				fmt.Fprintf(&b, "  claim=%s %s again=%q\n", p.Claim, strings.Join(facts, " "), p.Failed)
				for _, c := range cases[p.Name] {
					tell(c)
				}
				if got := report.CountCases(cases[p.Name]); got != p.Counts {
					t.Errorf("%s counts %+v, the cases are %+v", p.Name, p.Counts, got)
				}
			},
		})
		feed(t, g, in, chunk)
		s := g.Close()
		fmt.Fprintf(&b, "packages=%d raw=%d torn=%d\n", s.Packages, s.Raw, s.Torn)
	case ".tap":
		var cases []towpath.Case
		r := report.NewTAP(func(c towpath.Case) { tell(c); cases = append(cases, c) })
		feed(t, r, in, chunk)
		res := r.Close()
		if got := report.CountCases(cases); got != res.Counts {
			t.Errorf("it counts %+v, the cases are %+v", res.Counts, got)
		}
		fmt.Fprintf(&b, "%s: %q planned=%d results=%d other=%d problems=%q\n", res.Outcome, res.Reason, res.Planned, res.Results, res.Other, res.Problems)
	case ".xml":
		var j report.JUnit
		err := j.Read(&pieces{in, chunk}, func(c report.FileCase) error {
			tell(c.Case)
			return nil
		})
		fmt.Fprintf(&b, "error: %v\n", err)
	default:
		t.Fatalf("no reader for %s", ext)
	}
	return b.String()
}

type writer interface{ Write(p []byte) (int, error) }

func feed(t *testing.T, w writer, in []byte, chunk int) {
	t.Helper()
	for len(in) > 0 {
		n := min(chunk, len(in))
		if _, err := w.Write(bytes.Clone(in[:n])); err != nil {
			t.Fatal(err)
		}
		in = in[n:]
	}
}

// pieces reads in pieces.
type pieces struct {
	in   []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.in[:min(p.size, len(p.in))])
	p.in = p.in[n:]
	return n, nil
}
