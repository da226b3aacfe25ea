package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/towpath/towpath"
)

// setting is one setting of the program: its flag, its variable, its key in the file and its default, declared once.
type setting struct {
	key   string // in the file; the flag is the same with dashes, the variable TOWPATH_ and capitals
	usage string
	def   func(getenv func(string) string) string
	check func(string) error
}

func fixed(s string) func(func(string) string) string {
	return func(func(string) string) string { return s }
}

// settingsTable lists all settings in the order in which `towpath config` prints them.
var settingsTable = []setting{
	{"state_dir", "where builds, logs and durations are kept", defaultStateDir, nonEmpty},
	{"slots", "how many atoms run at once", func(func(string) string) string { return strconv.Itoa(runtime.NumCPU()) }, atLeast(1)},
	{"project", "name under which durations are kept; by default the path of the workspace", fixed(""), nil},
	{"log_limit", "most bytes kept of one log; beyond, the head and the tail", fixed("10485760"), atLeast(1 << 20)},
	{"keep_builds", "the newest finished builds that are kept however old they are", fixed("200"), atLeast(1)},
	{"keep_days", "days for which every finished build is kept", fixed("30"), atLeast(1)},
	{"log_level", "of Towpath's own log in the state directory: debug, info, warn, error", fixed("info"), oneOf("debug", "info", "warn", "error")},
	{"color", "auto, always or never", fixed("auto"), oneOf("auto", "always", "never")},
}

// value is the text of a setting and where it came from.
type value struct {
	text   string
	origin string
}

// settings are the values in force. They are read only.
type settings map[string]value

func (s settings) text(key string) string { return s[key].text }

// number returns a value that its check has found to be a number.
func (s settings) number(key string) int {
	n, err := strconv.Atoi(s[key].text)
	if err != nil {
		return 0
	}
	return n
}

func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }
func envName(key string) string  { return "TOWPATH_" + strings.ToUpper(key) }

// declareSettings gives flags their settings.
func declareSettings(flags *pflag.FlagSet) {
	for _, s := range settingsTable {
		flags.String(flagName(s.key), "", s.usage)
	}
}

// loadSettings takes each setting from its flag, else the environment, else the file, else its default, and reports all
// faults at once.
func loadSettings(flags *pflag.FlagSet, getenv func(string) string) (settings, error) {
	file := configFile(getenv)
	fromFile, err := readConfigFile(file)
	if err != nil {
		return nil, err
	}
	out, faults := settings{}, []string(nil)
	for _, s := range settingsTable {
		v := value{s.def(getenv), "default"}
		if text, ok := fromFile[s.key]; ok {
			v = value{text, file}
		}
		if text := getenv(envName(s.key)); text != "" {
			v = value{text, "environment " + envName(s.key)}
		}
		if f := flags.Lookup(flagName(s.key)); f != nil && f.Changed {
			v = value{f.Value.String(), "flag --" + f.Name}
		}
		if s.check != nil {
			if err := s.check(v.text); err != nil {
				faults = append(faults, fmt.Sprintf("%s is %q (from %s): %v", s.key, v.text, v.origin, err))
			}
		}
		out[s.key] = v
	}
	if len(faults) > 0 {
		return nil, &towpath.Error{Code: towpath.CodeConfig, Message: strings.Join(faults, "\n")}
	}
	return out, nil
}

// configFile is where the file of settings is, whether it exists or not; "" if this user has no place for one. A relative
// path is none: it would give the settings to whoever wrote the directory that we stand in.
func configFile(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "towpath", "config.yaml")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "towpath", "config.yaml")
	}
	return ""
}

// maxConfigFile is the size in bytes that a file of settings may have.
const maxConfigFile = 64 << 10

func readConfigFile(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file) // before it is opened: opening a pipe would wait for whoever writes it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfigFile) {
		return nil, towpath.Errorf(towpath.CodeConfig, "%s is no file of settings: it must be a regular file of at most %d KiB", file, maxConfigFile>>10)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, towpath.Errorf(towpath.CodeConfig, "the settings cannot be read: %w; make the file readable, or name another directory in XDG_CONFIG_HOME", err)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(data, &raw); err != nil {
		return nil, towpath.Errorf(towpath.CodeConfig, "%s is no YAML map of settings: %s", file, yaml.FormatError(err, false, false))
	}
	out := map[string]string{}
	for key, v := range raw {
		if !slices.ContainsFunc(settingsTable, func(s setting) bool { return s.key == key }) {
			return nil, towpath.Errorf(towpath.CodeConfig, "%s has an unknown setting %q: there are %s", file, key, strings.Join(settingKeys(), ", "))
		}
		out[key] = fmt.Sprint(v)
	}
	return out, nil
}

func settingKeys() []string {
	keys := make([]string, len(settingsTable))
	for i, s := range settingsTable {
		keys[i] = s.key
	}
	return keys
}

func defaultStateDir(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "towpath")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "towpath")
	}
	if dir := getenv("LOCALAPPDATA"); filepath.IsAbs(dir) { // Windows
		return filepath.Join(dir, "towpath")
	}
	return ""
}

func nonEmpty(s string) error {
	if s == "" {
		return errors.New("it must name a directory, and neither XDG_STATE_HOME nor HOME is set to an absolute path")
	}
	return nil
}

func atLeast(least int) func(string) error {
	return func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < least {
			return fmt.Errorf("it must be a whole number, at least %d", least)
		}
		return nil
	}
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("it must be one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}
