package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

var errNoBuild = errors.New("no such build")

func (t *tx) fleet(owner string) (*fleet, error) {
	if f, ok := t.db.live.fleets[owner]; ok {
		return f, nil
	}
	f := &fleet{}
	err := t.each("SELECT num FROM owners WHERE id = ?", []any{owner}, func(s scanner) error { return s.Scan(&f.num) })
	if err != nil {
		return nil, err
	}
	if f.num == 0 {
		return nil, fmt.Errorf("owner %q is not registered", owner)
	}
	if f.seq, err = t.lastSeq(-f.num); err != nil {
		return nil, err
	}
	t.db.live.fleets[owner] = f
	return f, nil
}

func (t *tx) lastSeq(stream int64) (int64, error) {
	var seq int64
	err := t.each("SELECT seq + n - 1 FROM events WHERE stream = ? ORDER BY seq DESC LIMIT 1", []any{stream},
		func(s scanner) error { return s.Scan(&seq) })
	return seq, err
}

// liveBuild gives what is remembered of a build, read from its tables if need be.
func (t *tx) liveBuild(number towpath.BuildNumber) (*liveBuild, error) {
	if b, ok := t.db.live.builds[number]; ok {
		return b, nil
	}
	b := &liveBuild{number: number, attempts: map[towpath.AttemptID]*liveAttempt{}}
	if err := t.loadBuild(b); err != nil {
		return nil, err
	}
	if b.owner == "" {
		return nil, errNoBuild
	}
	if err := t.loadAtoms(b); err != nil {
		return nil, err
	}
	if err := t.loadAttempts(b); err != nil {
		return nil, err
	}
	t.db.live.builds[number] = b
	return b, nil
}

func (t *tx) loadBuild(b *liveBuild) error {
	err := t.each("SELECT owner, project, job, state, reason, by, started, finished, deadline, atoms, cases, lower_bound, floor, code FROM builds WHERE number = ?",
		[]any{b.number}, func(s scanner) error {
			var started, finished, deadline int64
			var atoms, cases []byte
			if err := s.Scan(&b.owner, &b.project, &b.job, &b.state, &b.reason, &b.by, &started, &finished, &deadline, &atoms, &cases, &b.bound, &b.floor, &b.code); err != nil {
				return err
			}
			b.started, b.finished, b.deadline = fromMicros(started), fromMicros(finished), fromMicros(deadline)
			return errors.Join(json.Unmarshal(atoms, &b.counts), json.Unmarshal(cases, &b.cases))
		})
	if err != nil || b.state == "" {
		return err
	}
	if b.seq, err = t.lastSeq(int64(b.number)); err != nil {
		return err
	}
	return t.each("SELECT data FROM events WHERE stream = ? ORDER BY seq LIMIT 1", []any{b.number}, func(s scanner) error {
		var data []byte
		if err := s.Scan(&data); err != nil {
			return err
		}
		events, err := t.db.codec.decodeEvents(data)
		if err != nil {
			return err
		}
		if v, ok := events[0].Body.(towpath.BuildSubmitted); ok {
			b.report, b.quarantine = v.Job.Report.Kind, v.Job.Quarantine
		}
		return nil
	})
}

func (t *tx) loadAtoms(b *liveBuild) error {
	return t.each("SELECT name, state, reason, agent, started, finished, duration, verdict, attempts, extra FROM atoms WHERE build = ? ORDER BY idx",
		[]any{b.number}, func(s scanner) error {
			var a liveAtom
			var started, finished int64
			var took time.Duration
			var attempts, extra string
			if err := s.Scan(&a.name, &a.state, &a.reason, &a.agent, &started, &finished, &took, &a.verdict, &attempts, &extra); err != nil {
				return err
			}
			a.started, a.finished, a.duration = fromMicros(started), fromMicros(finished), took
			a.attempts = splitNumbers(attempts)
			if extra != "" {
				if err := json.Unmarshal([]byte(extra), &a.work); err != nil {
					return fmt.Errorf("atom %q: %w", a.name, err)
				}
			}
			b.atoms = append(b.atoms, a)
			return nil
		})
}

func (t *tx) loadAttempts(b *liveBuild) error {
	return t.each(selectAttempts+" WHERE build = ? ORDER BY number", []any{b.number}, func(s scanner) error {
		a, left, err := scanAttempt(s)
		if err != nil {
			return err
		}
		l := &liveAttempt{AttemptInfo: a, left: map[towpath.Unit]bool{}}
		b.attempts[a.ID] = l
		if !a.Ended.IsZero() {
			return nil
		}
		b.open++
		for _, u := range left {
			l.left[u.Unit] = true
			b.atoms[u.Atom].running++
			if u.Partial {
				if l.partial == nil {
					l.partial = map[towpath.Unit]bool{}
				}
				l.partial[u.Unit] = true
			}
		}
		return nil
	})
}

func joinNumbers(numbers []int) string {
	var b strings.Builder
	for i, n := range numbers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

func splitNumbers(s string) []int {
	if s == "" {
		return nil
	}
	var numbers []int
	for field := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(field)
		if err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
