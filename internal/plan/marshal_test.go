package plan_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

func TestMarshalWritesWhatPeopleWouldWrite(t *testing.T) {
	t.Parallel()
	j := plan.Defaults()
	j.Name = "test"
	j.Atoms = towpath.AtomSource{Command: "go list ./..."}
	j.Setup = "go build ./...\ngo vet ./...\n"
	j.Run = `go test -json "$@"`
	j.Env = map[string]string{"CGO_ENABLED": "0", "MODE": "fast"}
	j.Report = towpath.Report{Kind: towpath.ReportGoTest}
	j.Retries.Failed = 1
	j.Timeouts.Build = 90 * time.Minute
	j.Quarantine = []towpath.Quarantine{{Pattern: "./flaky/..."}, {Pattern: "*::TestX", Owner: "us", Until: time.Date(2030, 12, 31, 23, 59, 59, 0, time.UTC)}}
	other := plan.Defaults()
	other.Name = "web"
	other.Atoms = towpath.AtomSource{Glob: []string{"web/**/*.test.js"}}
	other.Run = `node --test "$@"`
	other.Report = towpath.Report{Kind: towpath.ReportJUnit, Glob: "out/**/*.xml"}
	got, err := plan.Marshal(j, other)
	if err != nil {
		t.Fatal(err)
	}
	want := `# yaml-language-server: $schema=https://raw.githubusercontent.com/towpath/towpath/main/internal/plan/towpath.schema.json
version: 1
jobs:
  test:
    atoms:
      command: go list ./... # prints one atom a line
    setup: |
      go build ./...
      go vet ./...
    run: go test -json "$@"                      # "$@" is the atoms
    env:
      CGO_ENABLED: "0"
      MODE: fast
    timeouts: {build: 1h30m}
    retries: {failed: 1}
    quarantine: # these run, and do not count
      - ./flaky/...
      - pattern: "*::TestX"
        owner: us
        until: 2030-12-31
    report: gotest                               # how the results of single cases are read

  web:
    atoms:
      glob: web/**/*.test.js
    run: node --test "$@"                        # "$@" is the atoms
    report: {junit: "out/**/*.xml"}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestMarshalRefusesWhatAFileCannotSay(t *testing.T) {
	t.Parallel()
	good := plan.Defaults()
	good.Name, good.Run, good.Atoms.List = "a", "x", []string{"a"}
	for name, change := range map[string]func(*towpath.Job){
		"a command without a shell": func(j *towpath.Job) { j.Run, j.Argv = "", []string{"make", "{}"} },
		"no atoms":                  func(j *towpath.Job) { j.Atoms.List = nil },
		"secrets":                   func(j *towpath.Job) { j.Secrets = []string{"A"} },
		"two sources":               func(j *towpath.Job) { j.Atoms.Command = "ls" },
		"a start per atom":          func(j *towpath.Job) { j.PerAtom = true },
		"a bad name":                func(j *towpath.Job) { j.Name = "a b" },
	} {
		j := good
		change(&j)
		if data, err := plan.Marshal(j); err == nil {
			t.Errorf("%s was written as\n%s", name, data)
		}
	}
	if _, err := plan.Marshal(); err == nil {
		t.Error("no job at all was written")
	}
}

func TestWhatIsWrittenReadsBackTheSame(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		j := randomJob(rng)
		data, err := plan.Marshal(j)
		if err != nil {
			t.Fatalf("job %d: %v\n%+v", i, err, j)
		}
		f, err := plan.Parse("towpath.yaml", data)
		if err != nil {
			t.Fatalf("job %d: %v\n%s", i, err, data)
		}
		if diff := cmp.Diff(j, f.Jobs[j.Name]); diff != "" {
			t.Fatalf("job %d: %s\n%s", i, diff, data)
		}
	}
}

func randomJob(rng *rand.Rand) towpath.Job {
	maybe := func() bool { return rng.IntN(3) == 0 }
	j := plan.Defaults()
	j.Name = pick(rng, "test", "a.b-c", "1", "true", "null", "0x1", "_")
	switch rng.IntN(3) {
	case 0:
		j.Atoms.Command = randomText(rng)
	case 1:
		j.Atoms.Glob = distinct(rng, func() string { return pick(rng, "a/**/*.py", "*", "{a,b}/*", "[ab]*", "a b", "#x", "a: b", "- x", "~") })
	default:
		j.Atoms.List = distinct(rng, func() string { return randomLine(rng) })
	}
	j.Run = randomText(rng)
	if maybe() {
		j.Setup = randomText(rng)
	}
	if maybe() {
		j.Teardown = randomText(rng)
	}
	if maybe() {
		j.Env = map[string]string{"A": randomText(rng), "b_1": randomLine(rng), "EMPTY": "", "no": "1e3"}
	}
	if maybe() {
		j.Labels = distinct(rng, func() string { return pick(rng, "linux", "arch=arm64", "1", "true", "a:b", "x/y") })
	}
	if maybe() {
		j.Slots = 1 + rng.IntN(9)
	}
	if maybe() {
		j.Parallel = towpath.Parallel{Max: rng.IntN(3), PerAgent: rng.IntN(3)}
	}
	switch rng.IntN(4) {
	case 0:
		j.Batch.Count = 1 + rng.IntN(3)
	case 1:
		j.Batch.Target = time.Duration(1+rng.IntN(1e6)) * time.Millisecond
	}
	if maybe() {
		d := func(most time.Duration) time.Duration {
			return time.Millisecond + time.Duration(rng.Int64N(int64(most)))
		}
		j.Timeouts = towpath.Timeouts{Queue: d(time.Hour), Setup: d(time.Hour), Silence: d(time.Hour), Build: 2*time.Hour + d(99*time.Hour)}
		if maybe() {
			j.Timeouts.Atom = d(time.Hour)
		}
	}
	if maybe() {
		j.Retries = towpath.Retries{Failed: rng.IntN(4), Lost: 1 + rng.IntN(4)}
	}
	j.FailFast, j.AllowEmpty = maybe(), maybe()
	if maybe() {
		for _, p := range distinct(rng, func() string { return randomLine(rng) }) {
			q := towpath.Quarantine{Pattern: p}
			if maybe() {
				q.Owner = randomLine(rng)
			}
			if maybe() {
				q.Until = time.Date(2020+rng.IntN(20), time.Month(1+rng.IntN(12)), 1+rng.IntN(28), 23, 59, 59, 0, time.UTC)
			} else if maybe() {
				q.Until = time.Unix(rng.Int64N(4e9), rng.Int64N(1e9)).UTC()
			}
			j.Quarantine = append(j.Quarantine, q)
		}
	}
	switch rng.IntN(4) {
	case 0:
		j.Report = towpath.Report{Kind: towpath.ReportGoTest}
		j.Split = maybe()
	case 1:
		j.Report = towpath.Report{Kind: towpath.ReportJUnit, Glob: pick(rng, "**/report.xml", "a, b", "{a,b}.xml", "x")}
	case 2:
		j.Report = towpath.Report{Kind: towpath.ReportPHPUnit}
	}
	j.PerAtom = j.Batch.Count == 1 || strings.Contains(j.Run, "$TOWPATH_ATOM")
	return j
}

func pick(rng *rand.Rand, words ...string) string { return words[rng.IntN(len(words))] }

func distinct(rng *rand.Rand, next func() string) []string {
	var all []string
	seen := make(map[string]bool)
	for range 1 + rng.IntN(3) {
		if s := next(); !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	return all
}

// pieces are what YAML, shells and people make trouble with.
var pieces = []string{
	"a", "go test", `"$@"`, " ", ": ", " #", "#", "'", `"`, `\`, "\t", "|", ">", "-", "- ", "?", "&a", "*a", "!", "%", "@", "`", "{", "}", "[", "]", ",",
	"é", "日本", "🚤", "\u00a0", "\u2028", "\u0085", "\u200b", "\ufeff", "\x01", "\x7f", "1", "1.5", "0x1f", "1e3", "true", "no", "null", "~", "...", "---", "<<", "=", "2030-12-31", "12:30", "$TOWPATH_ATOM ",
}

func randomLine(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(5) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	if s := b.String(); strings.TrimSpace(s) != "" {
		return s
	}
	return "x"
}

func randomText(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(4) {
		b.WriteString(randomLine(rng))
		b.WriteString(pick(rng, "", "\n", "\n\n", "\n  ", " \n", "\r\n"))
	}
	return b.String()
}
