package sched

import "github.com/towpath/towpath"

// Commands says what a session is to be told because of a stored event. The events of one Step are asked for in their
// order, before the next Step.
func Commands(e towpath.Event, s *State) []towpath.Command {
	switch body := e.Body.(type) {
	case towpath.AttemptOffered:
		b := s.builds[e.Build]
		if b == nil {
			return nil
		}
		o := towpath.Offer{
			Session: body.Session, Attempt: body.Attempt, Build: e.Build, Number: body.Number, Kind: body.Kind, Job: b.job,
			Units: body.Units, Limit: body.Limit,
		}
		return []towpath.Command{o}
	case towpath.AttemptStopped:
		return []towpath.Command{towpath.Stop{Session: body.Session, Attempt: body.Attempt, Reason: body.Reason}}
	case towpath.AttemptEnded:
		if body.Expired {
			return []towpath.Command{towpath.Stop{Session: body.Session, Attempt: body.Attempt, Reason: body.Reason}}
		}
	case towpath.RecallAsked:
		return []towpath.Command{towpath.Recall{Session: body.Session, Attempt: body.Attempt, Most: body.Most}}
	}
	return nil
}
