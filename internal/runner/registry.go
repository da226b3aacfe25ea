package runner

import "github.com/towpath/towpath"

// runners are the runners by the report kind that a job names.
var runners = map[towpath.ReportKind]Runner{
	"":                    none{},
	towpath.ReportNone:    none{},
	towpath.ReportGoTest:  goTest{},
	towpath.ReportTAP:     tap{},
	towpath.ReportJUnit:   junit{},
	towpath.ReportPytest:  pytest{},
	towpath.ReportJest:    jest{},
	towpath.ReportVitest:  vitest{},
	towpath.ReportNode:    node{},
	towpath.ReportRSpec:   rspec{},
	towpath.ReportPHPUnit: phpunit{},
	towpath.ReportCargo:   cargo{},
}

// For returns the runner that knows jobs with this kind of report.
func For(kind towpath.ReportKind) (Runner, error) {
	r, ok := runners[kind]
	if !ok {
		return nil, towpath.Errorf(towpath.CodeConfig, "report: %s is not built into this version of Towpath", kind)
	}
	return r, nil
}
