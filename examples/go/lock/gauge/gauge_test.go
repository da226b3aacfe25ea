package gauge

import (
	"os"
	"testing"
)

func TestParse(t *testing.T) {
	if got, err := Parse(" 1.85 m "); err != nil || got != 1.85 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Parse("1.85"); err == nil {
		t.Error("a level without a unit must be refused")
	}
}

func TestGaugeOnTheQuay(t *testing.T) {
	device := os.Getenv("CANAL_GAUGE")
	if device == "" {
		t.Skip("CANAL_GAUGE names no gauge")
	}
	if _, err := os.Stat(device); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2 m")
	f.Add("m")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Parse(text + " metres"); err == nil {
			t.Errorf("%q was read", text)
		}
	})
}
