package store

import (
	"context"
	"errors"
	"time"

	"github.com/towpath/towpath"
)

// RegisterOwner makes an owner known. Its builds are found through it.
func (db *DB) RegisterOwner(ctx context.Context, o towpath.Owner) error {
	return db.update(ctx, "register owner in", func(t *tx) error {
		return t.exec("INSERT INTO owners (id, pid, socket, started) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, socket = excluded.socket, started = excluded.started",
			o.ID, o.PID, o.Socket, micros(o.Started))
	})
}

// NextBuild takes the next build number. A number is given once, also to several processes at once. No build is seen
// under it until its BuildSubmitted is committed.
func (db *DB) NextBuild(ctx context.Context, r Reservation) (towpath.BuildNumber, error) {
	var number int64
	err := db.update(ctx, "take a build number from", func(t *tx) error {
		res, err := t.execCount("INSERT INTO builds (owner, project, job, state, created) VALUES (?, ?, ?, '', ?)",
			r.Owner, r.Project, r.Job, micros(r.At))
		if err != nil {
			return err
		}
		number, err = res.LastInsertId()
		return err
	})
	return towpath.BuildNumber(number), err
}

// Orphans lists the unfinished builds whose owner is not alive, reserved numbers among them.
// alive is asked once for each owner, outside of any transaction.
func (db *DB) Orphans(ctx context.Context, alive func(towpath.Owner) bool) ([]OwnedBuild, error) {
	var owned []OwnedBuild
	err := db.each(ctx, `SELECT b.number, b.state, b.owner, coalesce(o.pid, 0), coalesce(o.socket, ''), coalesce(o.started, 0)
		FROM builds b LEFT JOIN owners o ON o.id = b.owner WHERE b.finished = 0 ORDER BY b.number`, nil,
		func(s scanner) error {
			var b OwnedBuild
			var started int64
			err := s.Scan(&b.Build, &b.State, &b.Owner.ID, &b.Owner.PID, &b.Owner.Socket, &started)
			b.Owner.Started = fromMicros(started)
			owned = append(owned, b)
			return err
		})
	if err != nil {
		return nil, db.explain("list unfinished builds of", err)
	}
	asked := map[string]bool{}
	var orphans []OwnedBuild
	for _, b := range owned {
		living, known := asked[b.Owner.ID]
		if !known {
			living = alive(b.Owner)
			asked[b.Owner.ID] = living
		}
		if !living {
			orphans = append(orphans, b)
		}
	}
	return orphans, nil
}

// MarkErrored ends a build whose owner is gone: its unfinished atoms are canceled, its attempts lost, the build errored
// for this reason. A build that has ended meanwhile is left as it is. The caller makes sure that the owner is gone.
func (db *DB) MarkErrored(ctx context.Context, build towpath.BuildNumber, at time.Time, reason string) error {
	err := db.update(ctx, "mark a build as errored in", func(t *tx) error {
		if err := t.exec("DELETE FROM builds WHERE number = ? AND state = ''", build); err != nil {
			return err
		}
		delete(t.db.live.builds, build) // another process wrote it: what is remembered here is old
		b, err := t.liveBuild(build)
		if errors.Is(err, errNoBuild) {
			return nil
		}
		if err != nil || b.state.Final() {
			return err
		}
		return t.commit(&Batch{Owner: b.owner, Events: b.errored(at, reason)})
	})
	return err
}

// Probe says whether a write would be stored now.
func (db *DB) Probe(ctx context.Context, owner string) error {
	return db.update(ctx, "write to", func(t *tx) error {
		// Noise, for SQLite does not write what is already there; a page of it, to find a disk that is full but for a few bytes.
		return t.exec("UPDATE owners SET probe = randomblob(4096) WHERE id = ?", owner)
	})
}
