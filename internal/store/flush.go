package store

import (
	"encoding/json"
	"fmt"

	"github.com/towpath/towpath"
)

// flush writes what apply changed.
func (t *tx) flush(b *liveBuild) error {
	if err := t.flushAtoms(b); err != nil {
		return err
	}
	for _, a := range b.dirtyAttempts {
		if err := t.writeAttempt(b, a); err != nil {
			return fmt.Errorf("attempt %d: %w", a.Number, err)
		}
		a.dirty = false
		if !a.Ended.IsZero() {
			a.Units, a.left, a.partial = nil, nil, nil // only its number is asked for from now on
		}
	}
	b.dirtyAttempts = b.dirtyAttempts[:0]
	if err := t.learn(b); err != nil {
		return err
	}
	if err := t.writeBuild(b); err != nil {
		return err
	}
	if b.state.Final() && b.open == 0 {
		delete(t.db.live.builds, b.number)
	}
	return nil
}

func (t *tx) writeBuild(b *liveBuild) error {
	atoms, err := json.Marshal(b.counts)
	if err != nil {
		return err
	}
	cases, err := json.Marshal(b.cases)
	if err != nil {
		return err
	}
	return t.exec(`UPDATE builds SET state = ?, reason = ?, by = ?, started = ?, finished = ?, deadline = ?, atoms = ?, cases = ?, lower_bound = ?, floor = ?, code = ? WHERE number = ?`,
		string(b.state), b.reason, b.by, micros(b.started), micros(b.finished), micros(b.deadline), string(atoms), string(cases), int64(b.bound), b.floor, string(b.code), int64(b.number))
}

func (t *tx) flushAtoms(b *liveBuild) error {
	if b.listed {
		b.listed = false
		for i := range b.atoms {
			if err := t.exec("INSERT INTO atoms (build, idx, name, state) VALUES (?, ?, ?, ?)", int64(b.number), i, b.atoms[i].name, string(towpath.AtomPending)); err != nil {
				return fmt.Errorf("atom %q: %w", b.atoms[i].name, err)
			}
		}
	}
	for _, i := range b.dirtyAtoms {
		a := &b.atoms[i]
		if a.settle {
			a.settle = false
			if err := t.countCases(b, i, a); err != nil {
				return fmt.Errorf("cases of atom %q: %w", a.name, err)
			}
		}
		a.dirty = false
		if a.state.Final() {
			a.work = nil
		}
		if err := t.writeAtom(b, i, a); err != nil {
			return fmt.Errorf("atom %q: %w", a.name, err)
		}
	}
	b.dirtyAtoms = b.dirtyAtoms[:0]
	return nil
}

func (t *tx) writeAtom(b *liveBuild, i int, a *liveAtom) error {
	extra := ""
	if w := a.work; w != nil && (w.Partial || w.Split > 0 || len(w.Reports) > 0) {
		data, err := json.Marshal(w)
		if err != nil {
			return err
		}
		extra = string(data)
	}
	return t.exec("UPDATE atoms SET state = ?, reason = ?, agent = ?, started = ?, finished = ?, duration = ?, verdict = ?, attempts = ?, extra = ? WHERE build = ? AND idx = ?",
		string(a.state), a.reason, a.agent, micros(a.started), micros(a.finished), int64(a.duration), a.verdict, joinNumbers(a.attempts), extra, int64(b.number), i)
}

// storedUnit is a unit as an attempt's row holds it.
type storedUnit struct {
	towpath.Unit
	Partial bool `json:"partial,omitempty"`
	Left    bool `json:"left,omitempty"` // neither reported nor given back
}

func (t *tx) writeAttempt(b *liveBuild, a *liveAttempt) error {
	units := make([]storedUnit, len(a.Units))
	for i, u := range a.Units {
		units[i] = storedUnit{Unit: u, Partial: a.partial[u], Left: a.left[u]}
	}
	data, err := json.Marshal(units)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO attempts (build, number, id, kind, session, agent, units, outcome, lost, reason, offered, started, deadline, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (build, number) DO UPDATE SET units = excluded.units, outcome = excluded.outcome, lost = excluded.lost, reason = excluded.reason,
		started = excluded.started, deadline = excluded.deadline, ended = excluded.ended`,
		int64(b.number), a.Number, string(a.ID), string(a.Kind), string(a.Session), a.Agent, string(data), string(a.Outcome), a.Lost, a.Reason,
		micros(a.Offered), micros(a.Started), micros(a.Deadline), micros(a.Ended))
}

const selectAttempts = "SELECT number, id, kind, session, agent, units, outcome, lost, reason, offered, started, deadline, ended FROM attempts"

// scanAttempt reads a row of selectAttempts, and which of its units are left.
func scanAttempt(s scanner) (towpath.AttemptInfo, []storedUnit, error) {
	var a towpath.AttemptInfo
	var data []byte
	var offered, started, deadline, ended int64
	if err := s.Scan(&a.Number, &a.ID, &a.Kind, &a.Session, &a.Agent, &data, &a.Outcome, &a.Lost, &a.Reason, &offered, &started, &deadline, &ended); err != nil {
		return a, nil, err
	}
	a.Offered, a.Started, a.Deadline, a.Ended = fromMicros(offered), fromMicros(started), fromMicros(deadline), fromMicros(ended)
	var units, left []storedUnit
	if err := json.Unmarshal(data, &units); err != nil {
		return a, nil, fmt.Errorf("units of attempt %d: %w", a.Number, err)
	}
	for _, u := range units {
		a.Units = append(a.Units, u.Unit)
		if u.Left {
			left = append(left, u)
		}
	}
	return a, left, nil
}
