package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/towpath/towpath"
)

// Commit stores a batch in one transaction: its events at the ends of their streams, what they change in the read
// models, cases and log chunks. After an error nothing of it is stored. Events of a stream must come from its one owner.
func (db *DB) Commit(ctx context.Context, b *Batch) error {
	return db.update(ctx, "write to", func(t *tx) error { return t.commit(b) })
}

func (t *tx) commit(b *Batch) error {
	var touched []*liveBuild
	for run := range runs(b.Events) {
		l, err := t.append(b.Owner, run)
		if err != nil {
			return err
		}
		if l != nil && !l.touched {
			l.touched = true
			touched = append(touched, l)
		}
	}
	if err := t.insertCases(b.Cases); err != nil {
		return err
	}
	for _, l := range touched {
		l.touched = false
		if err := t.flush(l); err != nil {
			return fmt.Errorf("build %d: %w", l.number, err)
		}
	}
	if err := t.insertLogs(b.Logs); err != nil {
		return err
	}
	for _, n := range b.Released {
		if err := t.exec("UPDATE builds SET released = 1 WHERE number = ?", int64(n)); err != nil {
			return err
		}
		delete(t.db.live.builds, n)
	}
	return nil
}

// runs yields the longest pieces of events that belong to one stream. A replay needs the order across streams.
func runs(events []towpath.Event) iter.Seq[[]towpath.Event] {
	return func(yield func([]towpath.Event) bool) {
		for len(events) > 0 {
			n := 1
			for n < len(events) && events[n].Build == events[0].Build {
				n++
			}
			if !yield(events[:n]) {
				return
			}
			events = events[n:]
		}
	}
}

// append writes events of one stream to its end, as one row, and follows them in its read model, which it returns.
func (t *tx) append(owner string, events []towpath.Event) (l *liveBuild, err error) {
	build := events[0].Build
	stream := int64(build)
	var seq *int64
	if build == 0 {
		f, err := t.fleet(owner)
		if err != nil {
			return nil, err
		}
		stream, seq = -f.num, &f.seq
	} else {
		if l, err = t.liveBuild(build); err != nil {
			return nil, fmt.Errorf("build %d: %w", build, err)
		}
		seq = &l.seq
	}
	data, err := t.db.codec.encodeEvents(events)
	if err != nil {
		return nil, err
	}
	if err := t.exec("INSERT INTO events (stream, seq, n, data) VALUES (?, ?, ?, ?)", stream, *seq+1, len(events), data); err != nil {
		if isDuplicate(err) {
			return nil, towpath.Errorf(towpath.CodeConflict, "write events of build %d from %d on: another process wrote them already; this one does not own the build any more", build, *seq+1)
		}
		return nil, err
	}
	*seq += int64(len(events))
	if l != nil {
		for _, e := range events {
			l.apply(e)
		}
	}
	return l, nil
}

func (c codec) encodeEvents(events []towpath.Event) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('[')
	for i, e := range events {
		if i > 0 {
			buf.WriteByte(',')
		}
		// Not through json.Marshal of the slice, which would compact every event a second time.
		one, err := e.MarshalJSON()
		if err != nil {
			return nil, err
		}
		buf.Write(one)
	}
	buf.WriteByte(']')
	return c.pack(buf.Bytes()), nil
}

func (c codec) decodeEvents(data []byte) ([]towpath.Event, error) {
	data, err := c.unpack(data)
	if err != nil {
		return nil, err
	}
	var events []towpath.Event
	err = json.Unmarshal(data, &events)
	return events, err
}
