package store

import (
	"context"
	"fmt"
	"iter"

	"github.com/towpath/towpath"
)

// PackLogs does ahead of Commit what can be done on the caller's goroutine, so that chatty attempts cost the writer little.
func (db *DB) PackLogs(chunks []LogChunk) {
	for i := range chunks {
		chunks[i].packed = db.codec.pack(chunks[i].Data)
	}
}

// insertLogs stores chunks. One that was stored before is left as it is; one of an attempt that nobody knows is dropped:
// a session whose attempt was never recorded has nothing to say.
func (t *tx) insertLogs(chunks []LogChunk) error {
	for _, c := range chunks {
		number, err := t.attemptNumber(c.Build, c.Attempt)
		if err != nil {
			return err
		}
		if number == 0 {
			continue
		}
		data := c.packed
		if data == nil {
			data = nonNil(t.db.codec.pack(c.Data))
		}
		if err := t.exec("INSERT OR IGNORE INTO logs (build, attempt, unit, start, gap, data) VALUES (?, ?, ?, ?, ?, ?)",
			int64(c.Build), number, c.Unit, c.Offset, c.Gap, data); err != nil {
			return fmt.Errorf("log of build %d: %w", c.Build, err)
		}
	}
	return nil
}

func (t *tx) attemptNumber(build towpath.BuildNumber, id towpath.AttemptID) (number int, err error) {
	if b, ok := t.db.live.builds[build]; ok {
		if a := b.attempts[id]; a != nil {
			return a.Number, nil
		}
		return 0, nil
	}
	err = t.each("SELECT number FROM attempts WHERE build = ? AND id = ?", []any{int64(build), string(id)},
		func(s scanner) error { return s.Scan(&number) })
	return number, err
}

// logRows is how many chunks one query reads, so that no more than a few MiB wait in memory.
const logRows = 16

// stream names one log stream of a build.
type stream struct {
	attempt, unit int
	atom          string
}

// Log yields what is stored of the chosen log streams, stream by stream.
func (db *DB) Log(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery) iter.Seq2[towpath.LogPiece, error] {
	return func(yield func(towpath.LogPiece, error) bool) {
		streams, err := db.streams(ctx, n, q)
		if err != nil {
			yield(towpath.LogPiece{}, err)
			return
		}
		for _, s := range streams {
			if !db.readStream(ctx, n, s, q.Offset, yield) {
				return
			}
		}
	}
}

func (db *DB) readStream(ctx context.Context, n towpath.BuildNumber, st stream, offset int64, yield func(towpath.LogPiece, error) bool) bool {
	for after := int64(-1); ; {
		var page []towpath.LogPiece
		rows := 0
		err := db.each(ctx, "SELECT start, gap, data FROM logs WHERE build = ? AND attempt = ? AND unit = ? AND start > ? ORDER BY start LIMIT ?",
			[]any{int64(n), st.attempt, st.unit, after, logRows}, func(s scanner) error {
				p := towpath.LogPiece{Attempt: st.attempt, Unit: st.unit, Atom: st.atom}
				if err := s.Scan(&p.Offset, &p.Gap, &p.Data); err != nil {
					return err
				}
				rows++
				after = p.Offset
				data, err := db.codec.unpack(p.Data)
				if err != nil {
					return err
				}
				p.Data = data
				if skip := offset - p.Offset; skip > 0 {
					if skip >= int64(len(p.Data)) {
						return nil
					}
					p.Data, p.Offset, p.Gap = p.Data[skip:], offset, 0
				}
				page = append(page, p)
				return nil
			})
		if err != nil {
			yield(towpath.LogPiece{}, db.explain("read a log from", err))
			return false
		}
		for _, p := range page {
			if !yield(p, nil) {
				return false
			}
		}
		if rows < logRows {
			return true
		}
	}
}

// streams lists the log streams that q chooses, in the order of attempts, an attempt's own before those of its units.
func (db *DB) streams(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery) ([]stream, error) {
	if _, err := db.Build(ctx, n); err != nil {
		return nil, err
	}
	wanted, attempts := -1, map[int]bool{}
	if q.Atom != "" {
		a, err := db.atomNamed(ctx, n, q.Atom)
		if err != nil {
			return nil, err
		}
		wanted = a.Index
		for _, number := range a.Attempts {
			attempts[number] = true
		}
	}
	units := map[int][]towpath.Unit{}
	names := map[int]string{}
	var all []stream
	if err := db.each(ctx, `SELECT DISTINCT l.attempt, l.unit FROM logs l WHERE l.build = ? AND (? = 0 OR l.attempt = ?) ORDER BY l.attempt, l.unit`,
		[]any{int64(n), q.Attempt, q.Attempt}, func(s scanner) error {
			var st stream
			err := s.Scan(&st.attempt, &st.unit)
			if wanted < 0 || attempts[st.attempt] {
				all = append(all, st)
				units[st.attempt] = nil
			}
			return err
		}); err != nil {
		return nil, db.explain("list logs of", err)
	}
	for a, err := range db.Attempts(ctx, n) {
		if err != nil {
			return nil, err
		}
		if _, ok := units[a.Number]; ok {
			units[a.Number] = a.Units
		}
	}
	for a, err := range db.Atoms(ctx, n) {
		if err != nil {
			return nil, err
		}
		names[a.Index] = a.Name
	}
	chosen := all[:0]
	own := map[int]bool{} // attempts in which the wanted atom has a stream of its own
	for _, st := range all {
		if u := units[st.attempt]; st.unit >= 0 && st.unit < len(u) {
			st.atom = names[u[st.unit].Atom]
			if wanted >= 0 && u[st.unit].Atom != wanted {
				continue
			}
			own[st.attempt] = true
		}
		chosen = append(chosen, st)
	}
	if wanted < 0 {
		return chosen, nil
	}
	streams := chosen[:0]
	for _, st := range chosen {
		if st.unit >= 0 || !own[st.attempt] {
			streams = append(streams, st)
		}
	}
	return streams, nil
}

func (db *DB) atomNamed(ctx context.Context, n towpath.BuildNumber, name string) (towpath.AtomInfo, error) {
	for a, err := range db.Atoms(ctx, n) {
		if err != nil || a.Name == name {
			return a, err
		}
	}
	return towpath.AtomInfo{}, towpath.Errorf(towpath.CodeNotFound, "build %d has no atom %q; towpath show %d lists its atoms", n, name, n)
}
