package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/plan"
)

func TestRecognitionFindsTheOtherRunners(t *testing.T) {
	t.Parallel()
	const listed = ` | while IFS= read -r f; do printf '%s\n' "${f#"$(pwd -P)"/}"; done`
	const absent = `npx --no-install jest --version >/dev/null 2>&1 || { echo 'jest is not installed here: run npm ci, or npm install' >&2; exit 2; }; `
	for _, c := range []struct {
		name  string
		files map[string]string
		kind  string
		atoms towpath.AtomSource
		run   string
	}{
		{
			"jest, installed",
			map[string]string{"package.json": `{"scripts": {"test": "jest"}, "devDependencies": {"jest": "^30"}}`, "node_modules/.bin/jest": "", "a.test.js": "test"},
			"jest",
			towpath.AtomSource{Command: "node_modules/.bin/jest --listTests" + listed},
			`node_modules/.bin/jest --maxWorkers=1 --runTestsByPath "$@"`,
		},
		{
			"jest, not installed",
			map[string]string{"package.json": `{"devDependencies": {"jest": "^30"}}`},
			"jest",
			towpath.AtomSource{Command: absent + "npx --no-install jest --listTests" + listed},
			`npx --no-install jest --maxWorkers=1 --runTestsByPath "$@"`,
		},
		{
			"jest with flags of its own",
			map[string]string{"package.json": `{"scripts": {"test": "cross-env TZ=UTC jest --config jest.unit.js --coverage --watch -w 4 --forceExit src"}}`, "node_modules/.bin/jest": ""},
			"jest",
			towpath.AtomSource{Command: "TZ=UTC node_modules/.bin/jest --config jest.unit.js --forceExit --listTests src" + listed},
			`TZ=UTC node_modules/.bin/jest --config jest.unit.js --forceExit --maxWorkers=1 --runTestsByPath "$@"`,
		},
		{
			"jest under node's own flags",
			map[string]string{"package.json": `{"scripts": {"test": "node --experimental-vm-modules node_modules/jest/bin/jest.js"}}`, "node_modules/.bin/jest": ""},
			"jest",
			towpath.AtomSource{Command: "node --experimental-vm-modules node_modules/jest/bin/jest.js --listTests" + listed},
			`node --experimental-vm-modules node_modules/jest/bin/jest.js --maxWorkers=1 --runTestsByPath "$@"`,
		},
		{
			"vitest beside an old jest",
			map[string]string{"package.json": `{"scripts": {"test": "vitest run --coverage"}, "devDependencies": {"jest": "^30", "vitest": "^4"}}`, "node_modules/.bin/vitest": ""},
			"vitest",
			towpath.AtomSource{Command: "node_modules/.bin/vitest list --filesOnly"},
			`node_modules/.bin/vitest run --no-file-parallelism "$@"`,
		},
		{
			"vitest with projects",
			map[string]string{"package.json": `{"devDependencies": {"vitest": "^4"}}`, "vitest.config.ts": "export default {test: {projects: []}}", "node_modules/.bin/vitest": ""},
			"vitest",
			towpath.AtomSource{Command: `node_modules/.bin/vitest list --filesOnly | sed 's/^\[[^]]*\] //' | sort -u`},
			`node_modules/.bin/vitest run --no-file-parallelism "$@"`,
		},
		{
			"node with flags and folders",
			map[string]string{"package.json": `{"scripts": {"test": "node --import tsx --test --test-reporter=spec test/ 'lib/**/*.spec.ts'"}}`, "test/a.js": ""},
			"node",
			towpath.AtomSource{Glob: []string{"test/**/*.{cjs,mjs,js}", "lib/**/*.spec.ts"}},
			`node --import tsx --test --test-concurrency=1 "$@"`,
		},
		{
			"rspec",
			map[string]string{"spec/boat_spec.rb": "", "Gemfile": "gem 'rspec'"},
			"rspec",
			towpath.AtomSource{Glob: []string{"spec/**/*_spec.rb"}},
			`bundle exec rspec "$@"`,
		},
		{
			"phpunit",
			map[string]string{"phpunit.xml.dist": "", "tests/unit/BoatTest.php": ""},
			"phpunit",
			towpath.AtomSource{Glob: []string{"tests/**/*Test.php"}},
			`phpunit "$@"`,
		},
		{
			"cargo",
			map[string]string{"Cargo.toml": ""},
			"cargo",
			towpath.AtomSource{Command: `cargo tree --workspace --depth 0 --prefix none --format '{p}' | cut -d' ' -f1 | sed '/^$/d' | sort -u`},
			`cargo test --no-fail-fast --package "$@"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, err := plan.Recognize(tree(c.files))
			if err != nil || len(found) != 1 || found[0].Kind != c.kind {
				t.Fatalf("found %+v, %v; want %s alone", found, err, c.kind)
			}
			got := found[0].Job
			if diff := cmp.Diff(c.atoms, got.Atoms); diff != "" {
				t.Errorf("atoms (-want +got):\n%s", diff)
			}
			if got.Run != c.run {
				t.Errorf("run %s, want %s", got.Run, c.run)
			}
			if alone := c.kind == "cargo" || c.kind == "phpunit"; got.PerAtom != alone {
				t.Errorf("a command for each atom: %v, want %v", got.PerAtom, alone)
			}
		})
	}
}

func TestRecognitionTakesNodeTestsForASignOnlyWithoutABetterOne(t *testing.T) {
	t.Parallel()
	files := map[string]string{"test/a.test.js": "import test from 'node:test'"}
	found, err := plan.Recognize(tree(files))
	if err != nil || len(found) != 1 || found[0].Kind != "node" || !found[0].Weak {
		t.Errorf("found %+v, %v; want a weak sign of node", found, err)
	}
	files["package.json"] = `{"scripts": {"test": "mocha"}}`
	if found, err = plan.Recognize(tree(files)); err != nil || len(found) != 0 {
		t.Errorf("found %+v, %v; want nothing: the project says how it is tested", found, err)
	}
}
