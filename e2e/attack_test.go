package e2e

import (
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"
)

// TestWhoFollowsTheLogOfAKilledBuildIsTold kills towpath while somebody follows its log, who must not wait for ever.
func TestWhoFollowsTheLogOfAKilledBuildIsTold(t *testing.T) {
	t.Parallel()
	p, marker := stubborn(t)
	wait, pid := p.started(`"atom_started"`, "run", "--json")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follower := p.command(ctx, "logs", "-f", "1")
	var out bytes.Buffer
	follower.Stdout, follower.Stderr = &out, &out
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait()
	if err := follower.Wait(); err != nil || ctx.Err() != nil {
		t.Errorf("towpath logs -f of a killed build: %v, %v\n%s", err, ctx.Err(), out.String())
	}
	gone(t, marker)
}
