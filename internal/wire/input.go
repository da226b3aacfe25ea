package wire

import (
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// FromInput makes the messages that say in. A report with many cases, or a listing of many atoms, becomes several, which
// must follow each other.
func FromInput(in towpath.Input) ([]*Up, error) {
	switch in := in.(type) {
	case towpath.Started:
		return one(&Up{Body: &Up_Started{&Started{Attempt: string(in.Attempt)}}}), nil
	case towpath.AtomBegan:
		return one(&Up{Body: &Up_AtomBegan{&AtomBegan{
			Attempt: string(in.Attempt), Atom: int64(in.Atom), Part: int64(in.Part),
		}}}), nil
	case towpath.AtomDone:
		return fromAtomDone(in), nil
	case towpath.Done:
		return fromDone(in), nil
	case towpath.Recalled:
		r := &Recalled{Attempt: string(in.Attempt)}
		for _, u := range in.Units {
			r.Units = append(r.Units, &Unit{Atom: int64(u.Atom), Part: int64(u.Part)})
		}
		return one(&Up{Body: &Up_Recalled{r}}), nil
	case towpath.Drain:
		return one(&Up{Body: &Up_Draining{&Draining{}}}), nil
	case towpath.Goodbye:
		return one(&Up{Body: &Up_Goodbye{&Goodbye{Reason: text(in.Reason)}}}), nil
	case towpath.Hello:
		return one(&Up{Body: &Up_Hello{&Hello{
			Protocol: Protocol, Agent: text(in.Agent), Slots: int64(in.Slots), Labels: texts(in.Labels), Speed: in.Speed, Class: in.Class,
		}}}), nil
	}
	return nil, fmt.Errorf("encode input: an agent does not say %T", in)
}

func one(u *Up) []*Up { return []*Up{u} }

func fromAtomDone(in towpath.AtomDone) []*Up {
	var ups []*Up
	var cases []*Case
	size := 0
	for i := range in.Report.Cases {
		c := fromCase(&in.Report.Cases[i])
		n := len(c.Name) + len(c.Select) + len(c.File) + len(c.Message) + len(c.Detail) + 32
		if size+n > softLimit && len(cases) > 0 {
			ups = append(ups, &Up{Body: &Up_Cases{&Cases{
				Attempt: string(in.Attempt), Atom: int64(in.Atom), Part: int64(in.Part), Cases: cases,
			}}})
			cases, size = nil, 0
		}
		cases, size = append(cases, c), size+n
	}
	r, k := in.Report, in.Report.Counts
	return append(ups, &Up{Body: &Up_AtomDone{&AtomDone{
		Attempt: string(in.Attempt), Atom: int64(in.Atom), Part: int64(in.Part),
		Report: &AtomReport{
			Outcome: string(r.Outcome), Reason: text(r.Reason), ExitCode: int64(r.ExitCode), DurationNs: int64(r.Duration),
			Cached: r.Cached, Failed: texts(r.Failed), Cases: cases,
			Counts: &Counts{
				Total: int64(k.Total), Passed: int64(k.Passed), Failed: int64(k.Failed), Flaky: int64(k.Flaky),
				Lost: int64(k.Lost), Skipped: int64(k.Skipped), Canceled: int64(k.Canceled),
				Quarantined: int64(k.Quarantined), Unfinished: int64(k.Unfinished),
			},
		},
	}}})
}

func fromCase(c *towpath.Case) *Case {
	return &Case{
		Name: text(c.Name), Select: text(c.Select), File: text(c.File), State: string(c.State),
		DurationNs: int64(c.Duration), Message: text(c.Message), Detail: text(c.Detail),
	}
}

func fromDone(in towpath.Done) []*Up {
	var ups []*Up
	atoms, from, size := texts(in.Atoms), 0, 0
	for i, a := range atoms {
		if size += len(a) + 4; size > softLimit && i > from {
			ups = append(ups, &Up{Body: &Up_Listed{&Listed{Attempt: string(in.Attempt), Atoms: atoms[from:i]}}})
			from, size = i, len(a)+4
		}
	}
	return append(ups, &Up{Body: &Up_Done{&Done{
		Attempt: string(in.Attempt), Outcome: string(in.Outcome), Reason: text(in.Reason), Atoms: atoms[from:],
	}}})
}

// Inputs turns one session's messages into inputs. It is used by one goroutine.
type Inputs struct {
	Session towpath.SessionID

	cases []towpath.Case // of the report that follows
	atoms []string       // of the listing that follows
}

// Take returns the input that u says, or nil if u is only a part of it. A log is no input, nor is a message that this
// version does not know.
func (i *Inputs) Take(u *Up) towpath.Input {
	switch b := u.GetBody().(type) {
	case *Up_Hello:
		h := b.Hello
		return towpath.Hello{
			Session: i.Session, Agent: h.GetAgent(), Slots: int(h.GetSlots()), Labels: h.GetLabels(), Speed: h.GetSpeed(),
			Class: h.GetClass(),
		}
	case *Up_Beat:
		return towpath.Beat{Session: i.Session}
	case *Up_Started:
		return towpath.Started{Session: i.Session, Attempt: towpath.AttemptID(b.Started.GetAttempt())}
	case *Up_AtomBegan:
		m := b.AtomBegan
		return towpath.AtomBegan{
			Session: i.Session, Attempt: towpath.AttemptID(m.GetAttempt()), Atom: int(m.GetAtom()), Part: int(m.GetPart()),
		}
	case *Up_Cases:
		i.cases = appendCases(i.cases, b.Cases.GetCases())
		return nil
	case *Up_AtomDone:
		return i.atomDone(b.AtomDone)
	case *Up_Listed:
		i.atoms = append(i.atoms, b.Listed.GetAtoms()...)
		return nil
	case *Up_Done:
		m := b.Done
		in := towpath.Done{
			Session: i.Session, Attempt: towpath.AttemptID(m.GetAttempt()), Outcome: towpath.Outcome(m.GetOutcome()),
			Reason: m.GetReason(), Atoms: append(i.atoms, m.GetAtoms()...),
		}
		i.atoms = nil
		return in
	case *Up_Recalled:
		in := towpath.Recalled{Session: i.Session, Attempt: towpath.AttemptID(b.Recalled.GetAttempt())}
		for _, u := range b.Recalled.GetUnits() {
			in.Units = append(in.Units, towpath.Unit{Atom: int(u.GetAtom()), Part: int(u.GetPart())})
		}
		return in
	case *Up_Draining:
		return towpath.Drain{Session: i.Session}
	case *Up_Goodbye:
		return towpath.Goodbye{Session: i.Session, Reason: b.Goodbye.GetReason()}
	}
	return nil
}

func (i *Inputs) atomDone(m *AtomDone) towpath.Input {
	r, k := m.GetReport(), m.GetReport().GetCounts()
	in := towpath.AtomDone{
		Session: i.Session, Attempt: towpath.AttemptID(m.GetAttempt()), Atom: int(m.GetAtom()), Part: int(m.GetPart()),
		Report: towpath.AtomReport{
			Outcome: towpath.Outcome(r.GetOutcome()), Reason: r.GetReason(), ExitCode: int(r.GetExitCode()),
			Duration: time.Duration(r.GetDurationNs()), Cached: r.GetCached(), Failed: r.GetFailed(),
			Counts: towpath.Counts{
				Total: int(k.GetTotal()), Passed: int(k.GetPassed()), Failed: int(k.GetFailed()), Flaky: int(k.GetFlaky()),
				Lost: int(k.GetLost()), Skipped: int(k.GetSkipped()), Canceled: int(k.GetCanceled()),
				Quarantined: int(k.GetQuarantined()), Unfinished: int(k.GetUnfinished()),
			},
			Cases: appendCases(i.cases, r.GetCases()),
		},
	}
	i.cases = nil
	return in
}

func appendCases(to []towpath.Case, cases []*Case) []towpath.Case {
	for _, c := range cases {
		to = append(to, towpath.Case{
			Name: c.GetName(), Select: c.GetSelect(), File: c.GetFile(), State: towpath.CaseState(c.GetState()),
			Duration: time.Duration(c.GetDurationNs()), Message: c.GetMessage(), Detail: c.GetDetail(),
		})
	}
	return to
}
