package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

const (
	alpha        = 0.3
	maxSamples   = 20
	sampleAge    = 30 * 24 * time.Hour
	sampleSize   = 8
	sampleUnit   = 10 * time.Microsecond
	maxTests     = 5000                   // of which one atom's means are kept
	testsFrom    = 2 * time.Second        // an atom that takes less is not worth splitting
	emptyBelow   = 100 * time.Millisecond // a skipped atom that took less had nothing in it, which is worth knowing
	emptySample  = sampleUnit             // stands for that; no command is so fast
	fewEstimates = 64                     // up to so many are read one by one
)

// lesson is what a finished atom teaches for the next build.
type lesson struct {
	atom  string
	at    time.Time
	took  time.Duration // 0: no sample
	never bool          // it cannot be split
	tests []towpath.TestEstimate
	whole bool // tests are all that it has
}

func encodeSample(at time.Time, took time.Duration) []byte {
	var b [sampleSize]byte
	binary.BigEndian.PutUint32(b[:4], uint32(min(max(at.Unix(), 0), 1<<32-1)))
	binary.BigEndian.PutUint32(b[4:], uint32(min(max(took/sampleUnit, 1), 1<<32-1)))
	return b[:]
}

// estimate weighs samples, oldest first, that are not too old at now.
func estimate(samples []byte, now time.Time) towpath.Estimate {
	var e towpath.Estimate
	oldest := now.Add(-sampleAge).Unix()
	var mean, dev float64
	for ; len(samples) >= sampleSize; samples = samples[sampleSize:] {
		if int64(binary.BigEndian.Uint32(samples)) < oldest {
			continue
		}
		took := float64(binary.BigEndian.Uint32(samples[4:])) * float64(sampleUnit)
		if took <= float64(emptySample) { // it passed nothing: no ground for a short limit when there is something
			if e.Passes == 0 {
				mean = took
			}
			continue
		}
		if e.Passes == 0 {
			mean = took
		} else {
			off := took - mean
			dev = alpha*max(off, -off) + (1-alpha)*dev
			mean += alpha * off
		}
		e.Passes++
	}
	e.Mean, e.Dev = time.Duration(math.Round(mean)), time.Duration(math.Round(dev))
	return e
}

// learnTests takes the durations of top-level Go tests out of a report.
func (b *liveBuild) learnTests(c AttemptCases) {
	if b.report != towpath.ReportGoTest {
		return
	}
	a := &b.atoms[c.Atom]
	var r *reportRef
	if a.work != nil {
		for i := range a.work.Reports {
			if x := &a.work.Reports[i]; x.Attempt == b.attempts[c.Attempt].Number && x.Part == c.Part {
				r = x
			}
		}
	}
	if r == nil || r.Outcome != towpath.OutcomePassed || r.Cached || r.Rerun || a.work.Partial || c.Part == 0 && r.Duration < testsFrom {
		return
	}
	l := lesson{atom: a.name, at: b.now, whole: c.Part == 0}
	for _, k := range c.Cases {
		if k.State == towpath.CasePassed && !strings.Contains(k.Name, "/") && len(l.tests) < maxTests {
			l.tests = append(l.tests, towpath.TestEstimate{Name: k.Name, Mean: k.Duration})
		}
	}
	b.learn = append(b.learn, l)
}

// learn writes what the build's atoms taught. Several builds of a job may do so at once, in several processes: what is
// there is read or extended in this transaction.
func (t *tx) learn(b *liveBuild) error {
	for _, l := range b.learn {
		var sample []byte
		if l.took > 0 {
			sample = encodeSample(l.at, l.took)
		}
		if sample != nil || l.never {
			if err := t.exec(`INSERT INTO durations (project, job, atom, updated, samples, never_split) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (project, job, atom) DO UPDATE SET updated = excluded.updated,
				samples = substr(CAST(durations.samples || excluded.samples AS BLOB), -?), never_split = max(durations.never_split, excluded.never_split)`,
				b.project, b.job, l.atom, l.at.Unix(), nonNil(sample), l.never, maxSamples*sampleSize); err != nil {
				return fmt.Errorf("duration of %q: %w", l.atom, err)
			}
		}
		if len(l.tests) > 0 {
			if err := t.learnTests(b, l); err != nil {
				return fmt.Errorf("test durations of %q: %w", l.atom, err)
			}
		}
	}
	b.learn = b.learn[:0]
	if b.fixed == 0 {
		return nil
	}
	err := t.exec("INSERT INTO subjobs (project, job, fixed) VALUES (?, ?, ?) ON CONFLICT (project, job) DO UPDATE SET fixed = excluded.fixed",
		b.project, b.job, int64(b.fixed))
	b.fixed = 0
	return err
}

// FixedCost gives what a subjob of a job cost before its first atom began, by the latest build; 0 if that is not known.
func (db *DB) FixedCost(ctx context.Context, project, job string) (fixed time.Duration, err error) {
	err = db.each(ctx, "SELECT fixed FROM subjobs WHERE project = ? AND job = ?", []any{project, job}, func(s scanner) error {
		return s.Scan(&fixed)
	})
	return fixed, db.explain("read durations from", err)
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (t *tx) learnTests(b *liveBuild, l lesson) error {
	var known []towpath.TestEstimate
	err := t.each("SELECT tests FROM durations WHERE project = ? AND job = ? AND atom = ? AND tests IS NOT NULL", []any{b.project, b.job, l.atom}, func(s scanner) (err error) {
		known, err = t.db.codec.scanTests(s)
		return err
	})
	if err != nil {
		return err
	}
	means := make(map[string]time.Duration, len(known))
	for _, k := range known {
		means[k.Name] = k.Mean
	}
	merged := slices.Clone(l.tests)
	for i, k := range merged {
		if mean, ok := means[k.Name]; ok {
			merged[i].Mean = mean + time.Duration(alpha*float64(k.Mean-mean))
			delete(means, k.Name)
		}
	}
	if !l.whole {
		for name, mean := range means {
			if len(merged) < maxTests {
				merged = append(merged, towpath.TestEstimate{Name: name, Mean: mean})
			}
		}
	}
	slices.SortFunc(merged, func(x, y towpath.TestEstimate) int { return cmp.Compare(x.Name, y.Name) })
	data, err := json.Marshal(merged)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO durations (project, job, atom, updated, samples, tests) VALUES (?, ?, ?, ?, x'', ?)
		ON CONFLICT (project, job, atom) DO UPDATE SET updated = excluded.updated, tests = excluded.tests`,
		b.project, b.job, l.atom, l.at.Unix(), t.db.codec.pack(data))
}

func (c codec) scanTests(s scanner, more ...any) ([]towpath.TestEstimate, error) {
	var data []byte
	if err := s.Scan(append(more, &data)...); err != nil || data == nil {
		return nil, err
	}
	data, err := c.unpack(data)
	if err != nil {
		return nil, err
	}
	var tests []towpath.TestEstimate
	return tests, json.Unmarshal(data, &tests)
}

// Estimates gives what is known at now of how long atoms of a job take; atoms of which nothing is known are left out.
func (db *DB) Estimates(ctx context.Context, project, job string, atoms []string, now time.Time) (map[string]towpath.Estimate, error) {
	found := make(map[string]towpath.Estimate, len(atoms))
	take := func(s scanner) error {
		var atom string
		var samples []byte
		var never bool
		tests, err := db.codec.scanTests(s, &atom, &samples, &never)
		if err != nil {
			return err
		}
		e := estimate(samples, now)
		e.NeverSplit, e.Tests = never, tests
		found[atom] = e
		return nil
	}
	const query = "SELECT atom, samples, never_split, tests FROM durations WHERE project = ? AND job = ?"
	if len(atoms) <= fewEstimates {
		for _, atom := range atoms {
			if err := db.each(ctx, query+" AND atom = ?", []any{project, job, atom}, take); err != nil {
				return nil, db.explain("read durations from", err)
			}
		}
		return found, nil
	}
	if err := db.each(ctx, query, []any{project, job}, take); err != nil {
		return nil, db.explain("read durations from", err)
	}
	wanted := make(map[string]bool, len(atoms))
	for _, atom := range atoms {
		wanted[atom] = true
	}
	for atom := range found {
		if !wanted[atom] {
			delete(found, atom)
		}
	}
	return found, nil
}
