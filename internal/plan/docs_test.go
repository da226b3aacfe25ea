package plan_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/towpath/towpath/internal/plan"
)

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/towpath-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryKeyOfTheSchemaIsOnThePage(t *testing.T) {
	t.Parallel()
	text := page(t)
	var schema any
	if err := json.Unmarshal(plan.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	keys := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				for key := range properties {
					keys++
					// As the first cell of a row, or in the text of one for the JUnit report.
					if !regexp.MustCompile("(?m)^\\| \\[?`"+key+"`").MatchString(text) && !strings.Contains(text, "| `{"+key+": ") {
						t.Errorf("docs/towpath-yaml.md has no row for the key %s", key)
					}
				}
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(schema)
	if keys < 30 {
		t.Errorf("only %d keys were found in the schema", keys)
	}
}

func TestEveryExampleOfThePageIsValid(t *testing.T) {
	t.Parallel()
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	if len(examples) < 5 {
		t.Fatalf("only %d examples were found", len(examples))
	}
	s := compileSchema(t)
	for _, e := range examples {
		if _, err := plan.Parse("example", []byte(e[1])); err != nil {
			t.Errorf("%v in\n%s", err, e[1])
		}
		if err := bySchema(t, s, e[1]); err != nil {
			t.Errorf("%v in\n%s", err, e[1])
		}
	}
}

func TestDefaultsOfThePageAndOfTheSchemaAreThoseInForce(t *testing.T) {
	t.Parallel()
	text := page(t)
	f := parse(t, small(defaultsOfSchema(t)))
	given, left := f.Jobs["t"], parse(t, small("")).Jobs["t"]
	if a, b := asJSON(t, given), asJSON(t, left); a != b {
		t.Errorf("the documented defaults give\n%s\nand leaving the keys out\n%s", a, b)
	}
	for _, row := range []string{
		"| [`slots`](#slots) | number from 1 | `1` |", "| `queue` | `10m` |", "| `setup` | `10m` |", "| `silence` | `5m` |", "| `build` | `1h` |",
		"| `failed` | number from 0 | `0` |", "| `lost` | number from 1 | `3` |", "`auto`, number or duration | `auto` |", "| name or mapping | `none` |",
	} {
		if !strings.Contains(text, row) {
			t.Errorf("docs/towpath-yaml.md lacks %q", row)
		}
	}
	for _, key := range []string{"artifacts", "executor", "group", "limits", "outputs", "priority", "schedule", "secrets", "setup_shared", "workspace"} {
		_, err := plan.Parse("f", []byte(small(key+": x\n")))
		if err == nil || !strings.Contains(err.Error(), "is not built yet") {
			t.Errorf("%s: %v", key, err)
		}
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("docs/towpath-yaml.md does not say that %s is not built", key)
		}
	}
}

// defaultsOfSchema writes every key of a job for which the schema states a default, with that default.
func defaultsOfSchema(t *testing.T) string {
	t.Helper()
	type property struct {
		Default    json.RawMessage     `json:"default"`
		Properties map[string]property `json:"properties"`
	}
	var schema struct {
		Defs struct{ Job property } `json:"$defs"`
	}
	if err := json.Unmarshal(plan.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	stated := 0
	for key, p := range schema.Defs.Job.Properties {
		if p.Default != nil {
			stated++
			fmt.Fprintf(&b, "%s: %s\n", key, p.Default)
		}
		var inner []string
		for name, q := range p.Properties {
			if q.Default != nil {
				inner = append(inner, name+": "+string(q.Default))
			}
		}
		if len(inner) > 0 {
			stated += len(inner)
			fmt.Fprintf(&b, "%s: {%s}\n", key, strings.Join(inner, ", "))
		}
	}
	if stated < 12 {
		t.Fatalf("the schema states only %d defaults:\n%s", stated, b.String())
	}
	return b.String()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
