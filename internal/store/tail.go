package store

import (
	"context"
	"slices"

	"github.com/towpath/towpath"
)

// Tail reads the log of a build in the order in which it comes. One goroutine at a time may use it.
type Tail struct {
	db    *DB
	build towpath.BuildNumber
	q     towpath.LogQuery
	last  int64
	atoms map[int]string
	units map[int][]towpath.Unit // by number of the attempt
}

// Tail begins before the first chunk of a build's log.
func (db *DB) Tail(build towpath.BuildNumber, q towpath.LogQuery) *Tail {
	return &Tail{db: db, build: build, q: q, atoms: map[int]string{}, units: map[int][]towpath.Unit{}}
}

// Next gives the next few pieces that are stored. No pieces means: none for now.
func (t *Tail) Next(ctx context.Context) ([]towpath.LogPiece, error) {
	for {
		var page []towpath.LogPiece
		rows := 0
		err := t.db.each(ctx, "SELECT id, attempt, unit, start, gap, data FROM logs WHERE id > ? AND build = ? AND (? = 0 OR attempt = ?) ORDER BY id LIMIT ?",
			[]any{t.last, int64(t.build), t.q.Attempt, t.q.Attempt, logRows}, func(s scanner) error {
				rows++
				var p towpath.LogPiece
				if err := s.Scan(&t.last, &p.Attempt, &p.Unit, &p.Offset, &p.Gap, &p.Data); err != nil {
					return err
				}
				data, err := t.db.codec.unpack(p.Data)
				p.Data = data
				page = append(page, p)
				return err
			})
		if err != nil {
			return nil, t.db.explain("read a log from", err)
		}
		chosen := page[:0]
		for _, p := range page {
			ok, err := t.choose(ctx, &p)
			if err != nil {
				return nil, t.db.explain("read a log from", err)
			}
			if ok {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) > 0 || rows < logRows {
			return chosen, nil
		}
	}
}

// choose names a piece's atom and says whether it was asked for. Output of a whole attempt belongs to each of its atoms.
func (t *Tail) choose(ctx context.Context, p *towpath.LogPiece) (bool, error) {
	units, ok := t.units[p.Attempt]
	if !ok {
		err := t.db.each(ctx, selectAttempts+" WHERE build = ? AND number = ?", []any{int64(t.build), p.Attempt}, func(s scanner) error {
			a, _, err := scanAttempt(s)
			units = a.Units
			return err
		})
		if err != nil {
			return false, err
		}
		for _, u := range units {
			if err := t.name(ctx, u.Atom); err != nil {
				return false, err
			}
		}
		t.units[p.Attempt] = units
	}
	if p.Unit >= 0 && p.Unit < len(units) {
		p.Atom = t.atoms[units[p.Unit].Atom]
		return t.q.Atom == "" || p.Atom == t.q.Atom, nil
	}
	return t.q.Atom == "" || slices.ContainsFunc(units, func(u towpath.Unit) bool { return t.atoms[u.Atom] == t.q.Atom }), nil
}

func (t *Tail) name(ctx context.Context, idx int) error {
	if _, ok := t.atoms[idx]; ok {
		return nil
	}
	return t.db.each(ctx, "SELECT name FROM atoms WHERE build = ? AND idx = ?", []any{int64(t.build), idx}, func(s scanner) error {
		var name string
		err := s.Scan(&name)
		t.atoms[idx] = name
		return err
	})
}
