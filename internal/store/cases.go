package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/towpath/towpath"
)

// atomKey finds the cases of an atom in all builds of its job. Two atoms may share one; readers compare names.
func atomKey(project, job, atom string) int64 {
	h := fnv.New64a()
	for _, s := range []string{project, job, atom} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		_, _ = h.Write(n[:]) // a hash's Write gives no error
		_, _ = h.Write([]byte(s))
	}
	return int64(h.Sum64()) //nolint:gosec // all 64 bits are wanted
}

func (t *tx) insertCases(all []AttemptCases) error {
	for _, c := range all {
		if len(c.Cases) == 0 {
			continue
		}
		b, err := t.liveBuild(c.Build)
		if err != nil {
			return fmt.Errorf("build %d: %w", c.Build, err)
		}
		a := b.attempts[c.Attempt]
		if a == nil || c.Atom >= len(b.atoms) {
			return fmt.Errorf("cases of build %d: no attempt %s with atom %d", c.Build, c.Attempt, c.Atom)
		}
		data, err := json.Marshal(c.Cases)
		if err != nil {
			return err
		}
		name := b.atoms[c.Atom].name
		if err := t.exec("INSERT OR REPLACE INTO cases (build, atom, attempt, part, atom_key, data) VALUES (?, ?, ?, ?, ?, ?)",
			int64(c.Build), c.Atom, a.Number, c.Part, atomKey(b.project, b.job, name), t.db.codec.pack(data)); err != nil {
			return err
		}
		b.learnTests(c)
	}
	return nil
}

// countCases adds the cases of an atom that just got its result to the build's.
func (t *tx) countCases(b *liveBuild, i int, a *liveAtom) error {
	var counts towpath.Counts
	standing := a.work.standing()
	for _, r := range standing {
		counts.Add(r.Counts)
	}
	// Only where cases were reported more than once, or some failed and may be in quarantine, is it worth reading them.
	if len(standing) != len(a.work.Reports) || len(b.quarantine) > 0 && counts.Failed+counts.Unfinished > 0 {
		counts = towpath.Counts{}
		var reports []caseReport
		err := t.each(selectCases+" WHERE c.build = ? AND c.atom = ? ORDER BY c.attempt, c.part", []any{int64(b.number), i}, func(s scanner) error {
			r, err := t.db.codec.scanCases(s)
			reports = append(reports, r)
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range mergeCases(reports, quarantine{b.quarantine, a.name, b.started}) {
			counts.AddCase(c.State)
		}
	}
	b.cases.Add(counts)
	return nil
}

// caseReport are the cases that one accepted report brought.
type caseReport struct {
	atom  int
	part  int
	cases []towpath.Case
}

const selectCases = "SELECT c.atom, c.part, c.data FROM cases c"

func (c codec) scanCases(s scanner) (caseReport, error) {
	var r caseReport
	var data []byte
	if err := s.Scan(&r.atom, &r.part, &data); err != nil {
		return r, err
	}
	data, err := c.unpack(data)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r.cases)
}

// quarantine is what decides whether a case that failed counts: entries in force when its build began.
type quarantine struct {
	entries []towpath.Quarantine
	atom    string
	at      time.Time
}

// mergeCases gives what finally stands for each case of one atom, in the order in which cases were first named. reports
// are in the order of their attempts. The last one that names a case decides; one that passed after it had failed is flaky.
// A whole run after parts stands alone.
func mergeCases(reports []caseReport, q quarantine) []towpath.CaseInfo {
	parts := slices.ContainsFunc(reports, func(r caseReport) bool { return r.part > 0 })
	if parts && slices.ContainsFunc(reports, func(r caseReport) bool { return r.part == 0 }) {
		reports = slices.DeleteFunc(slices.Clone(reports), func(r caseReport) bool { return r.part > 0 })
	}
	var merged []towpath.CaseInfo
	at := map[string]int{}
	failures := map[string]towpath.Case{} // the latest of each case; one that merely did not come to its end was no failure of its own
	for _, r := range reports {
		for _, c := range r.cases {
			i, ok := at[c.Name]
			if failure, failed := failures[c.Name]; failed && c.State == towpath.CasePassed {
				c.State, c.Message, c.Detail = towpath.CaseFlaky, failure.Message, failure.Detail // what people want to see
			}
			if c.State == towpath.CaseFailed {
				failures[c.Name] = c
			}
			if !ok {
				at[c.Name] = len(merged)
				merged = append(merged, towpath.CaseInfo{AtomIndex: r.atom, Attempts: 1, Case: c})
				continue
			}
			merged[i].Case = c
			merged[i].Attempts++
		}
	}
	if len(q.entries) == 0 {
		return merged
	}
	for i := range merged {
		m := &merged[i]
		if (m.State == towpath.CaseFailed || m.State == towpath.CaseUnfinished) && towpath.Quarantined(q.entries, q.atom, m.Name, q.at) {
			m.State = towpath.CaseQuarantined
		}
	}
	return merged
}

// casePage is how many reports of cases one query reads.
const casePage = 200

// Cases yields what finally stands for each case of one atom, or of all atoms if atom is -1, in the order of atoms.
func (db *DB) Cases(ctx context.Context, build towpath.BuildNumber, atom int) iter.Seq2[towpath.CaseInfo, error] {
	return func(yield func(towpath.CaseInfo, error) bool) {
		fail := func(err error) { yield(towpath.CaseInfo{}, db.explain("read cases from", err)) }
		b, err := db.Build(ctx, build)
		if err != nil {
			fail(err)
			return
		}
		entries := sync.OnceValues(func() ([]towpath.Quarantine, error) {
			job, err := db.Job(ctx, build)
			return job.Quarantine, err
		})
		from, to := atom, atom
		if atom < 0 {
			from, to = 0, 1<<31
		}
		for {
			page, last, err := db.casePage(ctx, build, from, to)
			if err != nil {
				fail(err)
				return
			}
			for _, a := range page {
				q := quarantine{atom: a.name, at: b.Started}
				if a.mayNeedQuarantine() { // a job is as long as its list of atoms: whoever asks for each atom must not read it each time
					if q.entries, err = entries(); err != nil {
						fail(err)
						return
					}
				}
				for _, c := range mergeCases(a.reports, q) {
					c.Atom = a.name
					if !yield(c, nil) {
						return
					}
				}
			}
			if last {
				return
			}
			from = page[len(page)-1].idx + 1
		}
	}
}

type atomCases struct {
	idx     int
	name    string
	reports []caseReport
}

// mayNeedQuarantine says whether one of the cases failed: only such a case is judged by the job's quarantine.
func (a atomCases) mayNeedQuarantine() bool {
	return slices.ContainsFunc(a.reports, func(r caseReport) bool {
		return slices.ContainsFunc(r.cases, func(c towpath.Case) bool {
			return c.State == towpath.CaseFailed || c.State == towpath.CaseUnfinished
		})
	})
}

// casePage reads the reports of whole atoms, about casePage of them, and says whether there are none after these.
func (db *DB) casePage(ctx context.Context, build towpath.BuildNumber, from, to int) (page []atomCases, last bool, err error) {
	n := 0
	err = db.each(ctx, `SELECT c.atom, c.part, c.data, a.name FROM cases c JOIN atoms a ON a.build = c.build AND a.idx = c.atom
		WHERE c.build = ? AND c.atom BETWEEN ? AND ? ORDER BY c.atom, c.attempt, c.part LIMIT ?`,
		[]any{int64(build), from, to, casePage + 1}, func(s scanner) error {
			n++
			var name string
			r, err := db.codec.scanCases(scanMore{s, []any{&name}})
			if err != nil {
				return err
			}
			if len(page) == 0 || page[len(page)-1].idx != r.atom {
				page = append(page, atomCases{idx: r.atom, name: name})
			}
			a := &page[len(page)-1]
			a.reports = append(a.reports, r)
			return nil
		})
	last = n <= casePage
	if !last && len(page) > 1 {
		page = page[:len(page)-1] // it may go on after this page
	}
	return page, last, err
}

// scanMore scans further columns after those that a shared function knows.
type scanMore struct {
	scanner
	more []any
}

func (s scanMore) Scan(dest ...any) error { return s.scanner.Scan(append(dest, s.more...)...) }

// historyBuilds bounds how many builds History looks at.
const historyBuilds = 50

// History yields the results of one case in this build and those of the same project and job before it, newest first.
func (db *DB) History(ctx context.Context, build towpath.BuildNumber, atom, name string) iter.Seq2[towpath.PastCase, error] {
	return func(yield func(towpath.PastCase, error) bool) {
		b, err := db.Build(ctx, build)
		if err != nil {
			yield(towpath.PastCase{}, err)
			return
		}
		past, err := db.history(ctx, b, atom, name)
		if err != nil {
			yield(towpath.PastCase{}, db.explain("read the history of a case from", err))
			return
		}
		for _, p := range past {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (db *DB) history(ctx context.Context, b towpath.BuildInfo, atom, name string) ([]towpath.PastCase, error) {
	type found struct {
		atomCases
		past towpath.PastCase
	}
	var builds []*found
	job, err := db.Job(ctx, b.Number)
	if err != nil {
		return nil, err
	}
	err = db.each(ctx, `SELECT c.atom, c.part, c.data, b.number, b.started
		FROM cases c JOIN builds b ON b.number = c.build JOIN atoms a ON a.build = c.build AND a.idx = c.atom
		WHERE c.atom_key = ? AND c.build <= ? AND b.project = ? AND b.job = ? AND a.name = ?
		ORDER BY c.build DESC, c.attempt, c.part LIMIT ?`,
		[]any{atomKey(b.Project, b.Job, atom), int64(b.Number), b.Project, b.Job, atom, historyBuilds * 3}, func(s scanner) error {
			f := &found{}
			var at int64
			r, err := db.codec.scanCases(scanMore{s, []any{&f.past.Build, &at}})
			if err != nil {
				return err
			}
			f.past.At = fromMicros(at)
			if n := len(builds); n > 0 && builds[n-1].past.Build == f.past.Build {
				f = builds[n-1]
			} else {
				builds = append(builds, f)
			}
			f.reports = append(f.reports, r)
			return nil
		})
	if err != nil {
		return nil, err
	}
	var past []towpath.PastCase
	for _, f := range builds {
		for _, c := range mergeCases(f.reports, quarantine{job.Quarantine, atom, f.past.At}) {
			if c.Name == name && len(past) < historyBuilds {
				f.past.State, f.past.Duration, f.past.Message = c.State, c.Duration, c.Message
				past = append(past, f.past)
			}
		}
	}
	return past, nil
}
