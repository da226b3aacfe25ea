package runner

import (
	"testing"

	"github.com/towpath/towpath"
)

const phpunitRun = `phpunit "$@"`

func phpunitRig(t *testing.T, files map[string]string) rig {
	t.Helper()
	needTool(t, "phpunit", "install phpunit and php-xml")
	return rig{t: t, dir: project(t, files)}
}

func phpTest(class, body string) string {
	return "<?php\nuse PHPUnit\\Framework\\TestCase;\nfinal class " + class + " extends TestCase {\n" + body + "\n}\n"
}

func TestPHPUnitCasesAndTheirReruns(t *testing.T) {
	t.Parallel()
	g := phpunitRig(t, map[string]string{"tests/BoatTest.php": phpTest("BoatTest", `
  public function testFloats(): void { $this->assertTrue(true); }
  public function testSinks(): void { $this->assertSame(1, 2); }
  /** @dataProvider gates */
  public function testGate(int $n): void { $this->assertSame(0, $n % 50); }
  public static function gates(): array { return ['half|open' => [50], 'a/b [c]' => [75]]; }
  public function testSkipped(): void { $this->markTestSkipped('in winter'); }
  public function testPaint(): void { $this->markTestIncomplete('later'); }
  public function testRisky(): void { }
  public function testThrows(): void { throw new RuntimeException("leak\n'x' [y] | z"); }`)})
	list := units("tests/BoatTest.php")
	o := g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "BoatTest::testSinks: Failed asserting that 2 is identical to 1. (and 2 more)")
	same(t, o.states(0), "passed BoatTest::testFloats", "failed BoatTest::testSinks", `passed BoatTest::testGate with data set "half|open"`,
		`failed BoatTest::testGate with data set "a/b [c]"`, "skipped BoatTest::testSkipped", "skipped BoatTest::testPaint",
		"passed BoatTest::testRisky", "failed BoatTest::testThrows")
	list[0].Cases = []string{`BoatTest::testGate with data set "a/b [c]"`, "BoatTest::testFloats"}
	o = g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, list)
	same(t, o.states(0), "passed BoatTest::testFloats", `failed BoatTest::testGate with data set "a/b [c]"`)
	list[0].Cases = []string{"BoatTest::testRenamed"}
	o = g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, list)
	o.check(t, 0, towpath.OutcomeFailed, "did not run")
}

func TestPHPUnitExitHangAndBrokenFiles(t *testing.T) {
	t.Parallel()
	g := phpunitRig(t, map[string]string{
		"tests/ExitTest.php":  phpTest("ExitTest", `public function testSound(): void { $this->assertTrue(true); } public function testLeaves(): void { exit(0); }`),
		"tests/HangTest.php":  phpTest("HangTest", `public function testSound(): void { $this->assertTrue(true); } public function testHangs(): void { fwrite(STDERR, "now"); sleep(1000); }`),
		"tests/RiskyTest.php": phpTest("RiskyTest", `public function testNothing(): void { }`),
		"tests/StoveTest.php": `<?php throw new RuntimeException("no coal");`,
	})
	o := g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, units("tests/ExitTest.php"))
	o.check(t, 0, towpath.OutcomeFailed, `in the middle of "ExitTest::testLeaves"`)
	same(t, o.states(0), "passed ExitTest::testSound", "unfinished ExitTest::testLeaves")
	o = g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, units("tests/RiskyTest.php"))
	o.check(t, 0, towpath.OutcomePassed, "")
	same(t, o.states(0), "passed RiskyTest::testNothing")
	o = g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, units("tests/StoveTest.php"))
	o.check(t, 0, towpath.OutcomeFailed, "no coal")
	g.when = func(f *fileLog, running []string) bool { return len(f.results) == 1 && len(running) == 1 }
	o = g.run(phpunit{}, towpath.ReportPHPUnit, phpunitRun, units("tests/HangTest.php"))
	o.check(t, 0, towpath.OutcomeTimedOut, `in the middle of "HangTest::testHangs"`)
	same(t, o.states(0), "passed HangTest::testSound", "unfinished HangTest::testHangs")
}
