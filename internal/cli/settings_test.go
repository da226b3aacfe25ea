package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/towpath/towpath"
)

// env makes a getenv of pairs.
func env(pairs map[string]string) func(string) string {
	return func(key string) string { return pairs[key] }
}

func flagSet(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	declareSettings(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func configHome(t *testing.T, text string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "towpath"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "towpath", "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestAFlagWinsOverTheEnvironmentOverTheFileOverTheDefault(t *testing.T) {
	t.Parallel()
	home := configHome(t, "slots: 3\nkeep_days: 4\nkeep_builds: 5\n")
	set, err := loadSettings(flagSet(t, "--slots=1"), env(map[string]string{
		"XDG_CONFIG_HOME": home, "HOME": "/home/x", "TOWPATH_SLOTS": "2", "TOWPATH_KEEP_DAYS": "6",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]value{
		"slots":       {"1", "flag --slots"},
		"keep_days":   {"6", "environment TOWPATH_KEEP_DAYS"},
		"keep_builds": {"5", filepath.Join(home, "towpath", "config.yaml")},
		"state_dir":   {"/home/x/.local/state/towpath", "default"},
	} {
		if set[key] != want {
			t.Errorf("%s is %v, want %v", key, set[key], want)
		}
	}
}

func TestAllFaultsOfTheSettingsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := loadSettings(flagSet(t, "--slots=none"), env(map[string]string{"TOWPATH_COLOR": "blue"}))
	if towpath.CodeOf(err) != towpath.CodeConfig {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{`slots is "none" (from flag --slots)`, `color is "blue" (from environment TOWPATH_COLOR)`, "state_dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestAnUnknownSettingOfTheFileIsRefused(t *testing.T) {
	t.Parallel()
	_, err := loadSettings(flagSet(t), env(map[string]string{"XDG_CONFIG_HOME": configHome(t, "slotz: 3\n"), "HOME": "/home/x"}))
	if towpath.CodeOf(err) != towpath.CodeConfig || !strings.Contains(err.Error(), `"slotz": there are state_dir, slots, project`) {
		t.Errorf("error %v", err)
	}
}

// TestTheDocumentationListsTheSettings compares docs/cli.md with the table of settings.
func TestTheDocumentationListsTheSettings(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settingsTable {
		row := "| `" + s.key + "` | `--" + flagName(s.key) + "` | `" + envName(s.key) + "` |"
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/cli.md has no row that begins %s", row)
		}
	}
}

func TestARelativeHomeGivesNoSettings(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"", "here", "."} {
		get := env(map[string]string{"HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home})
		if file, dir := configFile(get), defaultStateDir(get); file != "" || dir != "" {
			t.Errorf("home %q: settings in %q, state in %q", home, file, dir)
		}
	}
}
