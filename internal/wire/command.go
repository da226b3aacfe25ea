package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/towpath/towpath"
)

// Offers writes commands. It remembers the last job, for a build makes many offers of one. It is used by one goroutine.
type Offers struct {
	job  *towpath.Job
	json []byte
}

// FromCommand makes the message that says cmd. The job of an offer comes without its static list of atoms: nobody lists
// those, and each offer would carry all of them.
func (o *Offers) FromCommand(cmd towpath.Command) (*Down, error) {
	switch cmd := cmd.(type) {
	case towpath.Offer:
		return o.fromOffer(cmd)
	case towpath.Stop:
		return &Down{Body: &Down_Stop{&Stop{Attempt: string(cmd.Attempt), Reason: text(cmd.Reason)}}}, nil
	case towpath.Recall:
		return &Down{Body: &Down_Recall{&Recall{Attempt: string(cmd.Attempt), Most: int64(cmd.Most)}}}, nil
	}
	return nil, fmt.Errorf("encode command: an agent is not told %T", cmd)
}

func (o *Offers) fromOffer(cmd towpath.Offer) (*Down, error) {
	if cmd.Job == nil {
		return nil, fmt.Errorf("encode offer %s: it has no job", cmd.Attempt)
	}
	if o.job != cmd.Job {
		job := *cmd.Job
		job.Atoms.List = nil
		data, err := json.Marshal(&job)
		if err != nil {
			return nil, fmt.Errorf("encode offer %s: %w", cmd.Attempt, err)
		}
		o.job, o.json = cmd.Job, data
	}
	m := &Offer{
		Attempt: string(cmd.Attempt), Build: int64(cmd.Build), Number: int64(cmd.Number), Kind: string(cmd.Kind),
		Job: o.json, LimitNs: int64(cmd.Limit), Units: make([]*OfferedUnit, 0, len(cmd.Units)),
	}
	for i := range cmd.Units {
		u := &cmd.Units[i]
		unit := &OfferedUnit{
			Atom: int64(u.Atom), Part: int64(u.Part), Name: text(u.Name), Cases: texts(u.Cases), LimitNs: int64(u.Limit), Fresh: u.Fresh,
		}
		if s := u.Split; s != nil {
			unit.Split = &Part{Index: int64(s.Index), Of: int64(s.Of), Rest: s.Rest, Run: texts(s.Run), Skip: texts(s.Skip)}
		}
		m.Units = append(m.Units, unit)
	}
	return &Down{Body: &Down_Offer{m}}, nil
}

// Commands reads commands. It remembers the last job, so that the offers of a build share one. It is used by one goroutine.
type Commands struct {
	Session towpath.SessionID

	json []byte
	job  *towpath.Job
}

// Take returns the command that d says, or nil if it is none. An offer whose job cannot be read is returned without one,
// beside the error.
func (c *Commands) Take(d *Down) (towpath.Command, error) {
	switch b := d.GetBody().(type) {
	case *Down_Offer:
		return c.offer(b.Offer)
	case *Down_Stop:
		return towpath.Stop{
			Session: c.Session, Attempt: towpath.AttemptID(b.Stop.GetAttempt()), Reason: b.Stop.GetReason(),
		}, nil
	case *Down_Recall:
		return towpath.Recall{
			Session: c.Session, Attempt: towpath.AttemptID(b.Recall.GetAttempt()), Most: int(b.Recall.GetMost()),
		}, nil
	}
	return nil, nil //nolint:nilnil // most messages are no commands, and that is no error
}

func (c *Commands) offer(m *Offer) (towpath.Command, error) {
	cmd := towpath.Offer{
		Session: c.Session, Attempt: towpath.AttemptID(m.GetAttempt()), Build: towpath.BuildNumber(m.GetBuild()),
		Number: int(m.GetNumber()), Kind: towpath.AttemptKind(m.GetKind()), Limit: time.Duration(m.GetLimitNs()),
	}
	for _, u := range m.GetUnits() {
		unit := towpath.OfferedUnit{
			Unit: towpath.Unit{Atom: int(u.GetAtom()), Part: int(u.GetPart())},
			Name: u.GetName(), Cases: u.GetCases(), Limit: time.Duration(u.GetLimitNs()), Fresh: u.GetFresh(),
		}
		if s := u.GetSplit(); s != nil {
			unit.Split = &towpath.Part{
				Index: int(s.GetIndex()), Of: int(s.GetOf()), Rest: s.GetRest(), Run: s.GetRun(), Skip: s.GetSkip(),
			}
		}
		cmd.Units = append(cmd.Units, unit)
	}
	if c.job == nil || !bytes.Equal(c.json, m.GetJob()) {
		job := new(towpath.Job)
		if err := json.Unmarshal(m.GetJob(), job); err != nil {
			return cmd, fmt.Errorf("read the job of offer %s: %w", m.GetAttempt(), err)
		}
		c.json, c.job = m.GetJob(), job
	}
	cmd.Job = c.job
	return cmd, nil
}
