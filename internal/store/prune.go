package store

import (
	"context"
	"time"

	"github.com/towpath/towpath"
)

// pruneRows bounds what one transaction of Prune removes, so that it holds nobody up for long.
const pruneRows = 2000

// Prune removes builds that have ended, beyond the newest keep ones and those that ended after since: their events, logs,
// cases, atoms and attempts. Durations stay, as long as they still count at now. It does a bounded amount of work, and
// says whether there is more.
func (db *DB) Prune(ctx context.Context, keep int, since, now time.Time) (more bool, err error) {
	var old []towpath.BuildNumber
	err = db.each(ctx, `SELECT number FROM builds WHERE finished > 0 AND finished < ? AND number NOT IN
		(SELECT number FROM builds WHERE finished > 0 ORDER BY number DESC LIMIT ?) ORDER BY number LIMIT 20`,
		[]any{micros(since), keep}, func(s scanner) error {
			var n towpath.BuildNumber
			err := s.Scan(&n)
			old = append(old, n)
			return err
		})
	if err != nil {
		return false, db.explain("list old builds of", err)
	}
	removed := 0
	for _, n := range old {
		rows, done, err := db.pruneBuild(ctx, n)
		if err != nil {
			return false, err
		}
		removed += rows
		if !done || removed >= pruneRows {
			return true, db.shrink(ctx)
		}
	}
	stale, err := db.pruneStale(ctx, now)
	if err != nil {
		return false, err
	}
	if removed+stale > 0 {
		err = db.shrink(ctx)
	}
	return len(old) == 20 || stale == pruneRows, err
}

// pruneBuild removes up to pruneRows rows of a build, the build itself last.
func (db *DB) pruneBuild(ctx context.Context, n towpath.BuildNumber) (rows int, done bool, err error) {
	err = db.update(ctx, "remove an old build from", func(t *tx) error {
		for _, query := range []string{
			"DELETE FROM logs WHERE rowid IN (SELECT rowid FROM logs WHERE build = ? LIMIT ?)",
			"DELETE FROM cases WHERE rowid IN (SELECT rowid FROM cases WHERE build = ? LIMIT ?)",
			"DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE stream = ? LIMIT ?)",
			"DELETE FROM atoms WHERE (build, idx) IN (SELECT build, idx FROM atoms WHERE build = ? LIMIT ?)",
			"DELETE FROM attempts WHERE (build, number) IN (SELECT build, number FROM attempts WHERE build = ? LIMIT ?)",
			"DELETE FROM builds WHERE rowid IN (SELECT rowid FROM builds WHERE number = ? LIMIT ?)",
		} {
			res, err := t.execCount(query, int64(n), pruneRows-rows)
			if err != nil {
				return err
			}
			gone, err := res.RowsAffected()
			if err != nil {
				return err
			}
			if rows += int(gone); rows >= pruneRows {
				return nil
			}
		}
		done = true
		return nil
	})
	return rows, done, err
}

// pruneStale removes durations that no longer count, unless they say what must not be split, and owners of no build
// with what their fleets did.
func (db *DB) pruneStale(ctx context.Context, now time.Time) (rows int, err error) {
	err = db.update(ctx, "remove old durations from", func(t *tx) error {
		res, err := t.execCount(`DELETE FROM durations WHERE (project, job, atom) IN
			(SELECT project, job, atom FROM durations WHERE updated < ? AND never_split = 0 LIMIT ?)`, now.Add(-sampleAge).Unix(), pruneRows)
		if err != nil {
			return err
		}
		gone, err := res.RowsAffected()
		rows = int(gone)
		if err != nil {
			return err
		}
		const idle = "SELECT num FROM owners WHERE started < ? AND NOT EXISTS (SELECT 1 FROM builds WHERE builds.owner = owners.id)"
		before := micros(now.Add(-sampleAge))
		if err := t.exec("DELETE FROM events WHERE stream IN (SELECT -num FROM ("+idle+"))", before); err != nil {
			return err
		}
		return t.exec("DELETE FROM owners WHERE num IN ("+idle+")", before)
	})
	return rows, err
}

// shrink gives free pages of the file back.
func (db *DB) shrink(ctx context.Context) error {
	return db.alone(ctx, "shrink", "PRAGMA incremental_vacuum(2000)")
}
