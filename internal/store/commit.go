package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/towpath/towpath"
)

// Commit stores a batch in one transaction: its events at the ends of their streams, what they change in the read
// models, cases and log chunks. After an error nothing of it is stored. Events of a stream must come from its one owner.
func (db *DB) Commit(ctx context.Context, b *Batch) error {
	return db.update(ctx, "write to", func(t *tx) error { return t.commit(b) })
}

func (t *tx) commit(b *Batch) error {
	streams, order := byStream(b.Events)
	for _, build := range order {
		if err := t.append(b.Owner, build, streams[build]); err != nil {
			return err
		}
	}
	touched := make([]*liveBuild, 0, len(order))
	for _, build := range order {
		if build == 0 {
			continue
		}
		l, err := t.liveBuild(build)
		if err != nil {
			return fmt.Errorf("build %d: %w", build, err)
		}
		for _, e := range streams[build] {
			l.apply(e)
		}
		touched = append(touched, l)
	}
	if err := t.insertCases(b.Cases); err != nil {
		return err
	}
	for _, l := range touched {
		if err := t.flush(l); err != nil {
			return fmt.Errorf("build %d: %w", l.number, err)
		}
	}
	return t.insertLogs(b.Logs)
}

func byStream(events []towpath.Event) (map[towpath.BuildNumber][]towpath.Event, []towpath.BuildNumber) {
	streams := map[towpath.BuildNumber][]towpath.Event{}
	var order []towpath.BuildNumber
	for _, e := range events {
		if _, ok := streams[e.Build]; !ok {
			order = append(order, e.Build)
		}
		streams[e.Build] = append(streams[e.Build], e)
	}
	return streams, order
}

// append writes events to the end of a stream, as one row.
func (t *tx) append(owner string, build towpath.BuildNumber, events []towpath.Event) error {
	stream := int64(build)
	var seq *int64
	if build == 0 {
		f, err := t.fleet(owner)
		if err != nil {
			return err
		}
		stream, seq = -f.num, &f.seq
	} else {
		l, err := t.liveBuild(build)
		if err != nil {
			return fmt.Errorf("build %d: %w", build, err)
		}
		seq = &l.seq
	}
	data, err := t.db.codec.encodeEvents(events)
	if err != nil {
		return err
	}
	if err := t.exec("INSERT INTO events (stream, seq, n, data) VALUES (?, ?, ?, ?)", stream, *seq+1, len(events), data); err != nil {
		if isDuplicate(err) {
			return towpath.Errorf(towpath.CodeConflict, "write events of build %d from %d on: another process wrote them already; this one does not own the build any more", build, *seq+1)
		}
		return err
	}
	*seq += int64(len(events))
	return nil
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
