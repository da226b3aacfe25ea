package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

const rspecRun = `rspec "$@"`

func rspecRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	needTool(t, "rspec", "install ruby-rspec")
	return rig{t: t, dir: project(t, files)}
}

const boatSpec = `
RSpec.describe "Boat" do
  it("floats") { }
  it("sinks") { expect(1).to eq(2) }
  it("paint") { pending "later"; fail }
  context("in winter") do
    xit("rows") { }
    it("same") { }
    it("same") { raise "frozen" }
  end
end`

func TestRSpecCasesAreSelectedByTheirIDs(t *testing.T) {
	t.Parallel()
	g := rspecRig(t, map[string]string{"spec/boat_spec.rb": boatSpec, "spec/gate_spec.rb": `RSpec.describe("Gate") { it("opens") { } }`})
	list := units("spec/boat_spec.rb", "spec/gate_spec.rb")
	g.env = []string{"SPEC_OPTS=--no-color --order defined"}
	g.scratch = project(t, map[string]string{"my scratch's/x": ""}) + "/my scratch's"
	o := g.run(rspec{}, towpath.ReportRSpec, rspecRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "Boat sinks: expected: 2 (and 1 more)")
	o.check(t, 1, towpath.OutcomePassed, "")
	same(t, o.states(0), "passed Boat floats", "failed Boat sinks", "skipped Boat paint", "skipped Boat in winter rows",
		"passed Boat in winter same", "failed #2 Boat in winter same")
	same(t, o.reports[0].Failed, "./spec/boat_spec.rb[1:2]", "./spec/boat_spec.rb[1:4:3]")

	list = list[:1]
	list[0].Cases = o.reports[0].Failed
	o = g.run(rspec{}, towpath.ReportRSpec, rspecRun, list)
	if c := o.reports[0].Counts; c.Total != 2 || c.Failed != 2 {
		t.Errorf("counts %+v, want the 2 failed cases alone", c)
	}
}

func TestRSpecFileThatCannotLoadBlamesNoOther(t *testing.T) {
	t.Parallel()
	g := rspecRig(t, map[string]string{"spec/boat_spec.rb": boatSpec, "spec/stove_spec.rb": `raise "no coal"`, "spec/none_spec.rb": ``})
	o := g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/boat_spec.rb", "spec/stove_spec.rb"))
	o.check(t, 0, towpath.OutcomeUnclear, "had not begun")
	o.check(t, 1, towpath.OutcomeFailed, "RuntimeError: no coal")
	o = g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/none_spec.rb"))
	o.check(t, 0, towpath.OutcomeSkipped, "no tests")
}

func TestRSpecExitHangAndHookErrors(t *testing.T) {
	t.Parallel()
	g := rspecRig(t, map[string]string{
		"spec/exit_spec.rb": `RSpec.describe("Exit") { it("sound") { }; it("leaves") { exit!(0) }; it("never") { } }`,
		"spec/soft_spec.rb": `RSpec.describe("Soft") { it("sound") { }; it("leaves") { exit(0) }; it("never") { } }`,
		"spec/hang_spec.rb": `RSpec.describe("Hang") { it("sound") { }; it("hangs") { sleep }; it("never") { } }`,
		"spec/hook_spec.rb": `RSpec.describe("Hook") { after(:context) { raise "bent" }; it("sound") { } }`,
		"spec/none_spec.rb": `at_exit { exit!(2) }; RSpec.describe("None") { it("sound") { } }`,
	})
	o := g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/exit_spec.rb"))
	o.check(t, 0, towpath.OutcomeFailed, `in the middle of "Exit leaves"`)
	same(t, o.states(0), "passed Exit sound", "unfinished Exit leaves", "unfinished Exit never")
	o = g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/soft_spec.rb"))
	o.check(t, 0, towpath.OutcomeFailed, "")
	o = g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/hook_spec.rb"))
	o.check(t, 0, towpath.OutcomeFailed, "bent")
	o = g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/none_spec.rb"))
	o.check(t, 0, towpath.OutcomeFailed, "exit status 2")
	g.when = func(_ *fileLog, running []string) bool { return len(running) == 1 && running[0] == "Hang hangs" }
	o = g.run(rspec{}, towpath.ReportRSpec, rspecRun, units("spec/hang_spec.rb"))
	o.check(t, 0, towpath.OutcomeTimedOut, `in the middle of "Hang hangs"`)
	same(t, o.states(0), "passed Hang sound", "unfinished Hang hangs", "unfinished Hang never")
}
