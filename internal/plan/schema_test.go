package plan_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/towpath/towpath/internal/plan"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plan.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("towpath.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("towpath.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bySchema says what the schema says of a YAML text. What is no YAML is invalid.
func bySchema(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	j, err := json.Marshal(v)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestSchemaAndParserAgree(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	valid := []string{
		whole, small(""),
		small("setup: ''\nteardown: |\n  a\n  b\n"), small("env: {}\n"), small("env: {A: '', _b1: x}\n"), small("labels: [a, 'b=c', d/e:1]\n"),
		small("slots: 1\n"), small("slots: 1000000\n"), small("parallel: {}\n"), small("parallel: {max: 1}\n"), small("parallel: {per_agent: 2}\n"),
		small("batch: auto\n"), small("batch: 1\n"), small("batch: 1h30m\n"), small("batch: .5s\n"), small("batch: 1.5m\n"),
		small("timeouts: {}\n"), small("timeouts: {atom: 500ms}\n"), small("retries: {}\n"), small("retries: {failed: 0, lost: 1}\n"),
		small("fail_fast: false\n"), small("split: false\n"), small("split: true\nreport: gotest\n"), small("allow_empty: true\n"),
		small("quarantine: [a, {pattern: b}, {pattern: c, owner: d, until: 2030-01-01}, {pattern: d, until: '2030-01-01T00:00:00Z'}]\n"),
		small("report: none\n"), small("report: tap\n"), small("report: pytest\n"), small("report: jest\n"), small("report: vitest\n"), small("report: node\n"),
		small("report: rspec\n"), small("report: phpunit\n"), small("report: cargo\n"), small("report: {junit: '**/*.xml'}\n"),
		"version: 1\nx-a: &a {slots: 2}\njobs:\n  t:\n    <<: *a\n    atoms: {glob: [a, 'b..c/**']}\n    run: x\n",
	}
	for _, text := range valid {
		if _, err := plan.Parse("towpath.yaml", []byte(text)); err != nil {
			t.Errorf("the parser refuses this: %v\n%s", err, text)
		}
		if err := bySchema(t, s, text); err != nil {
			t.Errorf("the schema refuses this: %v\n%s", err, text)
		}
	}
	invalid := []string{
		"", "[]", "x", "{}", "version: 1\n", "version: 1\njobs: {}\n", "version: 1\njobs: []\n", "version: 1\njobs: {t: }\n", "version: 1\njobs: {t: {}}\n",
		"version: 2\njobs: {t: {atoms: {list: [a]}, run: x}}\n", "version: '1'\njobs: {t: {atoms: {list: [a]}, run: x}}\n",
		"version: 1\njobs: {'a b': {atoms: {list: [a]}, run: x}}\n", "version: 1\njobs: {t: {atoms: {list: [a]}, run: x}}\nname: x\n",
		"version: 1\njobs: {t: {atoms: {}, run: x}}\n", "version: 1\njobs: {t: {atoms: {list: []}, run: x}}\n", "version: 1\njobs: {t: {atoms: [a], run: x}}\n",
		"version: 1\njobs: {t: {atoms: {list: [a], glob: b}, run: x}}\n", "version: 1\njobs: {t: {atoms: {list: [a, a]}, run: x}}\n",
		"version: 1\njobs: {t: {atoms: {list: [1]}, run: x}}\n", "version: 1\njobs: {t: {atoms: {list: ['']}, run: x}}\n", "version: 1\njobs: {t: {atoms: {list: [\"a\\nb\"]}, run: x}}\n",
		"version: 1\njobs: {t: {atoms: {glob: /a}, run: x}}\n", "version: 1\njobs: {t: {atoms: {glob: a/../b}, run: x}}\n", "version: 1\njobs: {t: {atoms: {glob: '!a'}, run: x}}\n",
		"version: 1\njobs: {t: {atoms: {objects: a}, run: x}}\n", "version: 1\njobs: {t: {atoms: {command: ' '}, run: x}}\n",
		"version: 1\njobs: {t: {atoms: {list: [a]}}}\n", "version: 1\njobs: {t: {run: x}}\n", "version: 1\njobs: {t: {atoms: {list: [a]}, run: ''}}\n",
		small("setup: 1\n"), small("setup: [a]\n"), small("env: {A: 1}\n"), small("env: {1A: a}\n"), small("env: {TOWPATH_X: a}\n"), small("env: [A]\n"),
		small("labels: a\n"), small("labels: []\n"), small("labels: [a, a]\n"), small("labels: ['a b']\n"), small("slots: 0\n"), small("slots: 1.5\n"), small("slots: '1'\n"), small("slots: 1000001\n"),
		small("parallel: 1\n"), small("parallel: {max: 0}\n"), small("parallel: {x: 1}\n"), small("batch: 0\n"), small("batch: 1d\n"), small("batch: all\n"), small("batch: [1]\n"),
		small("timeouts: 1m\n"), small("timeouts: {atom: 10}\n"), small("timeouts: {atom: -1m}\n"), small("timeouts: {total: 1m}\n"), small("retries: 1\n"), small("retries: {failed: -1}\n"), small("retries: {lost: 0}\n"),
		small("fail_fast: yes\n"), small("split: 1\n"), small("split: true\n"), small("split: true\nreport: tap\n"), small("allow_empty: 'true'\n"),
		small("quarantine: a\n"), small("quarantine: []\n"), small("quarantine: ['']\n"), small("quarantine: [{owner: a}]\n"), small("quarantine: [{pattern: a, until: soon}]\n"), small("quarantine: [a, a]\n"),
		small("report: junit\n"), small("report: {}\n"), small("report: {junit: /a}\n"), small("report: {junit: 1}\n"), small("report: xunit\n"), small("report: 1\n"),
		small("secrets: [A]\n"), small("workspace: {git: x}\n"), small("artifacts: [x]\n"), small("frobnicate: 1\n"),
	}
	for _, text := range invalid {
		if _, err := plan.Parse("towpath.yaml", []byte(text)); err == nil {
			t.Errorf("the parser accepts this:\n%s", text)
		}
		if err := bySchema(t, s, text); err == nil {
			t.Errorf("the schema accepts this:\n%s", text)
		}
	}
}

// beyondSchema names the faulty files of testdata with which a JSON Schema cannot find fault, and why.
var beyondSchema = map[string]string{
	"timeouts":  "it cannot compare two durations",
	"tag":       "it sees what a tag made of its value",
	"documents": "it sees one document at a time",
}

func TestSchemaFindsTheFaultsOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	files, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if filepath.Ext(f.Name) == ".says" {
				continue
			}
			want := beyondSchema[f.Name] == ""
			if got := bySchema(t, s, string(f.Data)) != nil; got != want {
				t.Errorf("%s: refused by the schema: %v, want %v", f.Name, got, want)
			}
		}
	}
}
