package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

const cargoRun = `cargo test --no-fail-fast --offline --package "$@"`

func cargoRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	needTool(t, "cargo", "install the Rust toolchain, or Debian's cargo")
	return rig{t: t, dir: project(t, files)}
}

const boatManifest = "[package]\nname = \"boat\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"

func TestCargoCasesOfAllBinariesAndTheirReruns(t *testing.T) {
	t.Parallel()
	g := cargoRig(t, map[string]string{
		"Cargo.toml": boatManifest,
		"src/lib.rs": `
/// Adds.
/// ` + "```" + `
/// assert_eq!(boat::add(1, 2), 3);
/// ` + "```" + `
pub fn add(a: i32, b: i32) -> i32 { a + b }
#[cfg(test)]
mod tests {
    #[test] fn adds() { assert_eq!(super::add(1, 1), 2); }
    #[test] fn sinks() { println!("glug"); assert_eq!(super::add(1, 1), 3, "too heavy"); }
    #[test] #[ignore = "in winter"] fn rows() {}
    #[test] #[should_panic] fn panics() { panic!("as it should"); }
}`,
		"tests/dock.rs": `#[test] fn lies() { assert_eq!(boat::add(2, 2), 4); }`,
	})
	list := units("boat")
	o := g.run(cargo{}, towpath.ReportCargo, cargoRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "tests::sinks: assertion `left == right` failed: too heavy")
	same(t, o.states(0), "passed tests::adds", "failed tests::sinks", "skipped tests::rows", "passed tests::panics",
		"passed tests/dock.rs > lies", "passed src/lib.rs - add (line 3)")
	same(t, o.reports[0].Failed, "tests::sinks")
	list[0].Cases = []string{"tests::sinks", "lies"}
	o = g.run(cargo{}, towpath.ReportCargo, cargoRun, list)
	same(t, o.states(0), "failed tests::sinks", "passed tests/dock.rs > lies")
	list[0].Cases = []string{"tests::renamed"}
	o = g.run(cargo{}, towpath.ReportCargo, cargoRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "did not run")
}

func TestCargoExitCrashAndErrorsOfTheCompiler(t *testing.T) {
	t.Parallel()
	g := cargoRig(t, map[string]string{
		"Cargo.toml":        "[workspace]\nmembers = [\"exit\", \"crash\", \"broken\"]\nresolver = \"2\"\n",
		"exit/Cargo.toml":   "[package]\nname = \"exit\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"exit/src/lib.rs":   `#[test] fn sound() {} #[test] fn leaves() { std::process::exit(0); }`,
		"crash/Cargo.toml":  "[package]\nname = \"crash\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"crash/src/lib.rs":  `#[test] fn aborts() { std::process::abort(); }`,
		"broken/Cargo.toml": "[package]\nname = \"broken\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"broken/src/lib.rs": `#[test] fn floats() { no_such_rope(); }`,
	})
	o := g.run(cargo{}, towpath.ReportCargo, cargoRun, units("exit"))
	o.check(t, 0, towpath.OutcomeFailed, "brought no result")
	o = g.run(cargo{}, towpath.ReportCargo, cargoRun, units("crash"))
	o.check(t, 0, towpath.OutcomeFailed, "SIGABRT")
	o = g.run(cargo{}, towpath.ReportCargo, cargoRun, units("broken"))
	o.check(t, 0, towpath.OutcomeFailed, "no_such_rope")
	o = g.run(cargo{}, towpath.ReportCargo, cargoRun, units("gone"))
	o.check(t, 0, towpath.OutcomeFailed, "gone")
}
