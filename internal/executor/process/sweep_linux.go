package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// sweep kills what runs left behind whose process was killed together with its guard. What still has a living owner, or
// an owner in another namespace of process numbers, is not touched.
func sweep(log *slog.Logger, self owner) {
	stale := func(o owner, ok bool) bool {
		return ok && o.namespace == self.namespace && !o.alive()
	}
	for _, h := range []struct{ fstype, controller string }{{"cgroup2", ""}, {"cgroup", "memory"}} {
		own, err := ownCgroup(h.fstype, h.controller)
		if err != nil {
			continue
		}
		entries, err := os.ReadDir(own)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(e.Name(), groupPrefix)
			if !ok || !stale(parseOwner(name)) {
				continue
			}
			dir := filepath.Join(own, e.Name())
			if h.fstype == "cgroup2" {
				log.Info("leftovers of a dead run killed", "cgroup", dir, "gone", endGroups(dir))
			} else {
				defer removeGroups(dir) //nolint:errcheck // empty once the processes below are gone; else the next sweep has it
			}
		}
	}
	if !killWhere(func(s procStat) bool {
		tokens := marks(s.pid)
		return len(tokens) > 0 && stale(parseOwner(tokens[len(tokens)-1]))
	}) {
		log.Warn("leftovers of a dead run do not die")
	}
}
