package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/towpath/towpath"
)

const selectBuilds = `SELECT b.number, b.project, b.job, b.state, b.reason, b.by, b.owner, coalesce(o.pid, 0), coalesce(o.socket, ''), coalesce(o.started, 0),
	b.started, b.finished, b.deadline, b.atoms, b.cases, b.lower_bound, b.floor, b.code FROM builds b LEFT JOIN owners o ON o.id = b.owner`

func scanBuild(s scanner) (towpath.BuildInfo, error) {
	var b towpath.BuildInfo
	var owned, started, finished, deadline int64
	var atoms, cases []byte
	if err := s.Scan(&b.Number, &b.Project, &b.Job, &b.State, &b.Reason, &b.By, &b.Owner.ID, &b.Owner.PID, &b.Owner.Socket, &owned,
		&started, &finished, &deadline, &atoms, &cases, &b.LowerBound, &b.Floor, &b.Code); err != nil {
		return b, err
	}
	b.Owner.Started, b.Started, b.Finished, b.Deadline = fromMicros(owned), fromMicros(started), fromMicros(finished), fromMicros(deadline)
	return b, errors.Join(json.Unmarshal(atoms, &b.Atoms), json.Unmarshal(cases, &b.Cases))
}

// Builds lists builds, newest first.
func (db *DB) Builds(ctx context.Context, f towpath.BuildFilter) ([]towpath.BuildInfo, error) {
	where := []string{"b.state <> ''"}
	var args []any
	add := func(cond string, arg any) {
		where = append(where, cond)
		args = append(args, arg)
	}
	if f.Project != "" {
		add("b.project = ?", f.Project)
	}
	if f.Job != "" {
		add("b.job = ?", f.Job)
	}
	if f.State != "" {
		add("b.state = ?", string(f.State))
	}
	if f.Before > 0 {
		add("b.number < ?", int64(f.Before))
	}
	if f.Unfinished {
		where = append(where, "b.finished = 0")
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	var builds []towpath.BuildInfo
	err := db.each(ctx, selectBuilds+" WHERE "+strings.Join(where, " AND ")+" ORDER BY b.number DESC LIMIT ?", append(args, f.Limit), func(s scanner) error {
		b, err := scanBuild(s)
		builds = append(builds, b)
		return err
	})
	return builds, db.explain("list builds of", err)
}

// Build gives one build, CodeNotFound if there is none of this number.
func (db *DB) Build(ctx context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error) {
	var b towpath.BuildInfo
	err := db.each(ctx, selectBuilds+" WHERE b.state <> '' AND b.number = ?", []any{int64(n)}, func(s scanner) (err error) {
		b, err = scanBuild(s)
		return err
	})
	if err == nil && b.Number == 0 {
		return b, towpath.Errorf(towpath.CodeNotFound, "there is no build %d here; towpath ps --all lists those that are kept", n)
	}
	return b, db.explain("read a build from", err)
}

// Submission gives what a build was submitted with.
func (db *DB) Submission(ctx context.Context, n towpath.BuildNumber) (towpath.BuildSubmitted, error) {
	if _, err := db.Build(ctx, n); err != nil {
		return towpath.BuildSubmitted{}, err
	}
	for e, err := range db.Events(ctx, n, 1) {
		if err != nil {
			return towpath.BuildSubmitted{}, err
		}
		if v, ok := e.Event.Body.(towpath.BuildSubmitted); ok {
			return v, nil
		}
		break
	}
	return towpath.BuildSubmitted{}, fmt.Errorf("events of build %d do not begin with its submission", n)
}

// Job gives the job that a build ran.
func (db *DB) Job(ctx context.Context, n towpath.BuildNumber) (towpath.Job, error) {
	v, err := db.Submission(ctx, n)
	return v.Job, err
}

// pageRows is how many rows one query of a long answer reads. Between pages no query is open, so that a slow reader
// holds nothing back.
const pageRows = 1000

// Atoms yields the atoms of a build in their order.
func (db *DB) Atoms(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AtomInfo, error] {
	return pages(ctx, db, n, -1, func(ctx context.Context, after int) (page []towpath.AtomInfo, last int, err error) {
		err = db.each(ctx, "SELECT idx, name, state, reason, agent, started, finished, duration, verdict, attempts FROM atoms WHERE build = ? AND idx > ? ORDER BY idx LIMIT ?",
			[]any{int64(n), after, pageRows}, func(s scanner) error {
				var a towpath.AtomInfo
				var started, finished int64
				var attempts string
				if err := s.Scan(&a.Index, &a.Name, &a.State, &a.Reason, &a.Agent, &started, &finished, &a.Duration, &a.Verdict, &attempts); err != nil {
					return err
				}
				a.Started, a.Finished, a.Attempts = fromMicros(started), fromMicros(finished), splitNumbers(attempts)
				page, last = append(page, a), a.Index
				return nil
			})
		return page, last, err
	})
}

// Attempts yields the attempts of a build in the order of their numbers.
func (db *DB) Attempts(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AttemptInfo, error] {
	return pages(ctx, db, n, 0, func(ctx context.Context, after int) (page []towpath.AttemptInfo, last int, err error) {
		err = db.each(ctx, selectAttempts+" WHERE build = ? AND number > ? ORDER BY number LIMIT ?", []any{int64(n), after, pageRows}, func(s scanner) error {
			a, _, err := scanAttempt(s)
			page, last = append(page, a), a.Number
			return err
		})
		return page, last, err
	})
}

// pages makes one sequence of pages. read gives the rows after a key and the last one's key.
func pages[T any](ctx context.Context, db *DB, n towpath.BuildNumber, first int, read func(context.Context, int) ([]T, int, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if _, err := db.Build(ctx, n); err != nil {
			yield(none, err)
			return
		}
		for after := first; ; {
			page, last, err := read(ctx, after)
			if err != nil {
				yield(none, db.explain("read from", err))
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if len(page) < pageRows {
				return
			}
			after = last
		}
	}
}

// eventRows is how many rows of events one query reads; each holds the events of one transaction.
const eventRows = 64

// Events yields the stored events of a build from sequence number from on, and ends where they end now.
func (db *DB) Events(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error] {
	return db.streamEvents(ctx, int64(n), from)
}

// FleetEvents yields the stored events of one owner's fleet.
func (db *DB) FleetEvents(ctx context.Context, owner string) iter.Seq2[towpath.NumberedEvent, error] {
	return func(yield func(towpath.NumberedEvent, error) bool) {
		var num int64
		err := db.each(ctx, "SELECT num FROM owners WHERE id = ?", []any{owner}, func(s scanner) error { return s.Scan(&num) })
		if err != nil {
			yield(towpath.NumberedEvent{}, db.explain("read an owner from", err))
			return
		}
		if num > 0 {
			db.streamEvents(ctx, -num, 1)(yield)
		}
	}
}

func (db *DB) streamEvents(ctx context.Context, stream, from int64) iter.Seq2[towpath.NumberedEvent, error] {
	return func(yield func(towpath.NumberedEvent, error) bool) {
		for {
			var rows []eventRow
			err := db.each(ctx, "SELECT seq, data FROM events WHERE stream = ? AND seq >= coalesce((SELECT max(seq) FROM events WHERE stream = ? AND seq <= ?), 0) ORDER BY seq LIMIT ?",
				[]any{stream, stream, from, eventRows}, func(s scanner) error {
					var r eventRow
					err := s.Scan(&r.seq, &r.data)
					rows = append(rows, r)
					return err
				})
			if err != nil {
				yield(towpath.NumberedEvent{}, db.explain("read events from", err))
				return
			}
			for _, r := range rows {
				events, err := db.codec.decodeEvents(r.data)
				if err != nil {
					yield(towpath.NumberedEvent{}, fmt.Errorf("events from %d on of stream %d: %w", r.seq, stream, err))
					return
				}
				for i, e := range events {
					seq := r.seq + int64(i)
					if seq < from {
						continue
					}
					if !yield(towpath.NumberedEvent{Seq: seq, Event: e}, nil) {
						return
					}
					from = seq + 1
				}
			}
			if len(rows) < eventRows {
				return
			}
		}
	}
}

// Replay yields what an owner must apply to have its state again: all events of its fleet and of its builds that it has
// not released, in the order in which they were written. There are no snapshots yet: it is all events of those builds.
func (db *DB) Replay(ctx context.Context, owner string) iter.Seq2[towpath.NumberedEvent, error] {
	return func(yield func(towpath.NumberedEvent, error) bool) {
		for after := int64(0); ; {
			page, last, err := db.replayPage(ctx, owner, after)
			if err != nil {
				yield(towpath.NumberedEvent{}, db.explain("replay events from", err))
				return
			}
			for _, r := range page {
				events, err := db.codec.decodeEvents(r.data)
				if err != nil {
					yield(towpath.NumberedEvent{}, fmt.Errorf("replay event row %d: %w", r.id, err))
					return
				}
				for i, e := range events {
					if !yield(towpath.NumberedEvent{Seq: r.seq + int64(i), Event: e}, nil) {
						return
					}
				}
			}
			if len(page) < eventRows {
				return
			}
			after = last
		}
	}
}

type eventRow struct {
	id, seq int64
	data    []byte
}

func (db *DB) replayPage(ctx context.Context, owner string, after int64) (page []eventRow, last int64, err error) {
	err = db.each(ctx, `SELECT id, seq, data FROM events WHERE id > ? AND stream IN
		(SELECT number FROM builds WHERE owner = ? AND released = 0 UNION ALL SELECT -num FROM owners WHERE id = ?) ORDER BY id LIMIT ?`,
		[]any{after, owner, owner, eventRows}, func(s scanner) error {
			var r eventRow
			err := s.Scan(&r.id, &r.seq, &r.data)
			page, last = append(page, r), r.id
			return err
		})
	return page, last, err
}
