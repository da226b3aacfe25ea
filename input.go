package towpath

import "time"

// Input is something that happened outside the decider and that it must answer with events or a refusal.
type Input interface{ input() }

// Submit asks for a build. The number was taken from the store.
type Submit struct {
	Build     BuildNumber
	Job       Job
	Only      []Selection         // not empty: exactly these atoms, and no listing
	By        string              // who asked
	Estimates map[string]Estimate // by atom; for a job whose atoms are known without listing
	Fixed     time.Duration       // what a subjob of this job cost before its first atom began; 0: unknown
}

// Hello opens a session.
type Hello struct {
	Session SessionID
	Agent   string
	Slots   int
	Labels  []string
	Speed   float64 // how fast this agent is beside the others: 1 is average; 0 is unknown
	Class   string  // "local", "agent" or "pod": the fixed cost of a subjob is learned for each; "" is "local"
}

// Beat says that a session was heard from.
type Beat struct{ Session SessionID }

// Drain asks that a session gets no more offers and ends when its attempts have.
type Drain struct{ Session SessionID }

// Goodbye ends a session at its agent's wish, or because its connection is known to be gone for good.
type Goodbye struct {
	Session SessionID
	Reason  string
}

// Started says that an agent accepted an offer and began.
type Started struct {
	Session SessionID
	Attempt AttemptID
}

// AtomBegan says that an attempt began one of its atoms. In a batch that is one command, all begin at once or as its
// output names them.
type AtomBegan struct {
	Session SessionID
	Attempt AttemptID
	Atom    int
	Part    int
}

// AtomDone brings one atom's report.
type AtomDone struct {
	Session SessionID
	Attempt AttemptID
	Atom    int
	Part    int
	Report  AtomReport
}

// Done says that an attempt has ended and its slots are free. Atoms of it without a report did not run to their end.
type Done struct {
	Session   SessionID
	Attempt   AttemptID
	Outcome   Outcome
	Reason    string
	Atoms     []string            // of an AttemptList
	Estimates map[string]Estimate // of those atoms, added by dispatch
}

// Recalled answers a recall: these atoms had not begun and will not.
type Recalled struct {
	Session SessionID
	Attempt AttemptID
	Units   []Unit
}

// Cancel asks for the end of a build.
type Cancel struct {
	Build BuildNumber
	By    string
}

// Tick says that the time which Next named has come.
type Tick struct{}

func (Submit) input()    {}
func (Hello) input()     {}
func (Beat) input()      {}
func (Drain) input()     {}
func (Goodbye) input()   {}
func (Started) input()   {}
func (AtomBegan) input() {}
func (AtomDone) input()  {}
func (Done) input()      {}
func (Recalled) input()  {}
func (Cancel) input()    {}
func (Tick) input()      {}
