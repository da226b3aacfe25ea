package agent

import (
	"testing"
	"time"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

func TestReasonsSayHowACommandEnded(t *testing.T) {
	t.Parallel()
	task := executor.Task{Limit: 10 * time.Minute, Silence: 8 * time.Second}
	for want, r := range map[string]executor.Result{
		"timed out after 10m (limit): blocked, no CPU used":   {End: executor.EndLimit},
		"no output for 8s: blocked, no CPU used":              {End: executor.EndSilence, Busy: 0.01},
		"no output for 8s: mostly blocked, 10% of a CPU used": {End: executor.EndSilence, Busy: 0.1},
		"no output for 8s: burning CPU":                       {End: executor.EndSilence, Busy: 0.97},
		"killed: out of memory":                               {End: executor.EndMemory, ExitCode: -1, Signal: "SIGKILL"},
		"killed by SIGSEGV":                                   {End: executor.EndExited, ExitCode: -1, Signal: "SIGSEGV"},
		"exit status 3":                                       {End: executor.EndExited, ExitCode: 3},
	} {
		if got := reasonOf(r, task); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
		if outcome, _ := outcomeOf(r, task); outcome == towpath.OutcomePassed || outcome == towpath.OutcomeCanceled {
			t.Errorf("%+v: %s", r, outcome)
		}
	}
	if outcome, reason := outcomeOf(executor.Result{End: executor.EndExited}, task); outcome != towpath.OutcomePassed || reason != "" {
		t.Errorf("exit status 0 is %s, %q", outcome, reason)
	}
}

func TestDurationsAreWrittenAsPeopleDo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 10 * time.Minute: "10m", 90 * time.Second: "1m30s", 1500 * time.Millisecond: "1.5s",
		200 * time.Millisecond: "200ms", time.Hour + time.Second: "1h0m1s", 100 * time.Minute: "1h40m", 10 * time.Hour: "10h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}
