package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"

	"github.com/towpath/towpath"
)

//go:embed sql/*.sql
var migrations embed.FS

// migrateWait bounds the wait for another process that migrates the same file.
const migrateWait = time.Minute

// migrate brings the database to this program's version, one process at a time.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	files, err := fs.Sub(migrations, "sql")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	sources := p.ListSources()
	newest := sources[len(sources)-1].Version
	// Most openings find everything in place: one small query, no lock.
	switch at, err := version(ctx, db); {
	case err != nil:
		return err
	case at == newest:
		return nil
	case at > newest:
		return newer(path, at, newest)
	}
	ctx, cancel := context.WithTimeout(ctx, migrateWait)
	defer cancel()
	lock := flock.New(path + ".migrate")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s.migrate: %w", path, err)
	}
	defer func() { _ = lock.Unlock() }()
	// Once more: another process may have migrated meanwhile, also to beyond this one's version.
	at, err := version(ctx, db)
	if err != nil || at > newest {
		return errors.Join(err, newer(path, at, newest))
	}
	if at == 0 {
		// Both stay in the file. The first must come before anything is written: a prune can then give pages back piece by piece.
		for _, pragma := range []string{"PRAGMA auto_vacuum = incremental", "PRAGMA journal_mode = wal"} {
			if _, err := db.ExecContext(ctx, pragma); err != nil {
				return fmt.Errorf("%s: %w", pragma, err)
			}
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func version(ctx context.Context, db *sql.DB) (int64, error) {
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'goose_db_version'").Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	var at int64
	err := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&at)
	return at, err
}

func newer(path string, at, newest int64) error {
	if at <= newest {
		return nil
	}
	return towpath.Errorf(towpath.CodeConfig,
		"open database %s: its version is %d, written by a newer Towpath, and this one knows versions up to %d; use the newer Towpath or another --state-dir",
		path, at, newest)
}
