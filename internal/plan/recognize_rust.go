package plan

import (
	"io/fs"

	"github.com/towpath/towpath"
)

// recognizeCargo finds a Rust package or workspace. An atom is a package: cargo builds and runs its tests together.
func recognizeCargo(fsys fs.FS) (*Candidate, error) {
	if !exists(fsys, "Cargo.toml") {
		return nil, nil
	}
	job := recognized(towpath.AtomSource{Command: `cargo tree --workspace --depth 0 --prefix none --format '{p}' | cut -d' ' -f1 | sed '/^$/d' | sort -u`},
		`cargo test --no-fail-fast --package "$@"`, towpath.ReportCargo)
	job.Setup = "cargo test --workspace --no-run"
	return &Candidate{Kind: "cargo", Why: "Cargo.toml", Job: WithBatch(job, towpath.Batch{Count: 1})}, nil
}
