package tunnel_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the agent of tests that need one in a process of its own.
func TestMain(m *testing.M) {
	if url := os.Getenv("TUNNEL_TEST_AGENT"); url != "" {
		os.Exit(agentProcess(url))
	}
	goleak.VerifyTestMain(m)
}
