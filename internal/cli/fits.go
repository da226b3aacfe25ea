package cli

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/towpath/towpath"
)

// hostName names this machine's agent.
func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "local"
	}
	return host
}

// localLabels are what the agent of a local run carries.
func localLabels(host string) []string { return []string{runtime.GOOS, runtime.GOARCH, host} }

// fits refuses a job that the one agent of a local run could never take, which would wait for nothing until its queue limit.
func fits(job towpath.Job, slots int, labels []string) error {
	if job.Slots > slots {
		return towpath.Errorf(towpath.CodeConfig, "job %s occupies %s for each attempt and there are %d here: lower `slots` of the job, or raise --slots",
			job.Name, plural(job.Slots, "slot"), slots)
	}
	var missing []string
	for _, l := range job.Labels {
		if !slices.Contains(labels, l) {
			missing = append(missing, l)
		}
	}
	if len(missing) > 0 {
		return towpath.Errorf(towpath.CodeConfig, "job %s asks for a machine labelled %s and this one is %s: run it on such a machine, or take the label off the job",
			job.Name, strings.Join(missing, ", "), strings.Join(labels, ", "))
	}
	return nil
}
