package heldcall_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/towpath/towpath/tools/heldcall"
)

func TestReportsWhatWaitsUnderAMutexAndNothingElse(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), heldcall.Analyzer, "reg")
}
