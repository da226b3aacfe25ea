package simtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towpath/towpath"
)

// FormatJob writes what a script can say of a job, as key=value words. ParseJob reads it.
func FormatJob(j *towpath.Job, estimates map[string]towpath.Estimate) string {
	var w []string
	str := func(key, v string) {
		if v != "" {
			w = append(w, key+"="+v)
		}
	}
	num := func(key string, v int) {
		if v != 0 {
			w = append(w, key+"="+strconv.Itoa(v))
		}
	}
	dur := func(key string, v time.Duration) {
		if v != 0 {
			w = append(w, key+"="+v.String())
		}
	}
	flag := func(key string, v bool) {
		if v {
			w = append(w, key)
		}
	}
	str("command", j.Atoms.Command)
	str("atoms", strings.Join(j.Atoms.List, ","))
	str("setup", j.Setup)
	str("teardown", j.Teardown)
	str("labels", strings.Join(j.Labels, ","))
	num("slots", j.Slots)
	num("max", j.Parallel.Max)
	num("per_agent", j.Parallel.PerAgent)
	num("batch", j.Batch.Count)
	dur("target", j.Batch.Target)
	dur("queue", j.Timeouts.Queue)
	dur("setup_limit", j.Timeouts.Setup)
	dur("atom_limit", j.Timeouts.Atom)
	dur("build_limit", j.Timeouts.Build)
	num("failed", j.Retries.Failed)
	num("lost", j.Retries.Lost)
	flag("fail_fast", j.FailFast)
	flag("per_atom", j.PerAtom)
	flag("allow_empty", j.AllowEmpty)
	flag("gotest", j.Report.Kind == towpath.ReportGoTest)
	var q []string
	for _, e := range j.Quarantine {
		q = append(q, e.Pattern)
	}
	str("quarantine", strings.Join(q, ","))
	var names []string
	for name := range estimates {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := estimates[name]
		var t strings.Builder
		fmt.Fprintf(&t, "est=%s:%v:%v:%d", name, e.Mean, e.Dev, e.Passes)
		if e.NeverSplit {
			t.WriteString(":never")
		}
		for _, x := range e.Tests {
			fmt.Fprintf(&t, ":%s=%v", x.Name, x.Mean)
		}
		w = append(w, t.String())
	}
	return strings.Join(w, " ")
}

// ParseJob reads what FormatJob wrote.
func ParseJob(words []string) (j towpath.Job, est map[string]towpath.Estimate, err error) {
	est = map[string]towpath.Estimate{}
	bad := func(e error) {
		if err == nil && e != nil {
			err = e
		}
	}
	num := func(v string) int {
		n, e := strconv.Atoi(v)
		bad(e)
		return n
	}
	dur := func(v string) time.Duration {
		d, e := time.ParseDuration(v)
		bad(e)
		return d
	}
	list := func(v string) []string {
		if v == "" {
			return nil
		}
		return strings.Split(v, ",")
	}
	for _, word := range words {
		key, v, _ := strings.Cut(word, "=")
		switch key {
		case "command":
			j.Atoms.Command = v
		case "atoms":
			j.Atoms.List = list(v)
		case "setup":
			j.Setup = v
		case "teardown":
			j.Teardown = v
		case "labels":
			j.Labels = list(v)
		case "slots":
			j.Slots = num(v)
		case "max":
			j.Parallel.Max = num(v)
		case "per_agent":
			j.Parallel.PerAgent = num(v)
		case "batch":
			j.Batch.Count = num(v)
		case "target":
			j.Batch.Target = dur(v)
		case "queue":
			j.Timeouts.Queue = dur(v)
		case "setup_limit":
			j.Timeouts.Setup = dur(v)
		case "atom_limit":
			j.Timeouts.Atom = dur(v)
		case "build_limit":
			j.Timeouts.Build = dur(v)
		case "failed":
			j.Retries.Failed = num(v)
		case "lost":
			j.Retries.Lost = num(v)
		case "fail_fast":
			j.FailFast = true
		case "per_atom":
			j.PerAtom = true
		case "allow_empty":
			j.AllowEmpty = true
		case "gotest":
			j.Report.Kind = towpath.ReportGoTest
		case "quarantine":
			for _, p := range list(v) {
				j.Quarantine = append(j.Quarantine, towpath.Quarantine{Pattern: p})
			}
		case "est":
			f := strings.Split(v, ":")
			if len(f) < 2 {
				bad(fmt.Errorf("est=%s: want NAME:MEAN", v))
				continue
			}
			e := towpath.Estimate{Mean: dur(f[1]), Passes: 5}
			for i, t := range f[2:] {
				name, mean, isTest := strings.Cut(t, "=")
				switch {
				case t == "never":
					e.NeverSplit = true
				case isTest:
					e.Tests = append(e.Tests, towpath.TestEstimate{Name: name, Mean: dur(mean)})
				case i == 0:
					e.Dev = dur(t)
				default:
					e.Passes = num(t)
				}
			}
			est[f[0]] = e
		default:
			bad(fmt.Errorf("unknown word %q", word))
		}
	}
	return j, est, err
}

// Format writes one input as a line of a script.
func Format(in towpath.Input) string {
	switch in := in.(type) {
	case towpath.Submit:
		var t strings.Builder
		fmt.Fprintf(&t, "submit %d %s", in.Build, FormatJob(&in.Job, in.Estimates))
		for _, o := range in.Only {
			t.WriteString(" only=" + o.Atom)
			for _, c := range o.Cases {
				t.WriteString(":" + c)
			}
		}
		return t.String()
	case towpath.Hello:
		t := fmt.Sprintf("hello %s agent=%s slots=%d", in.Session, in.Agent, in.Slots)
		if len(in.Labels) > 0 {
			t += " labels=" + strings.Join(in.Labels, ",")
		}
		return t
	case towpath.Beat:
		return fmt.Sprintf("beat %s", in.Session)
	case towpath.Drain:
		return fmt.Sprintf("drain %s", in.Session)
	case towpath.Goodbye:
		return fmt.Sprintf("goodbye %s %s", in.Session, in.Reason)
	case towpath.Started:
		return fmt.Sprintf("started %s %s", in.Session, in.Attempt)
	case towpath.AtomBegan:
		return fmt.Sprintf("began %s %s %s", in.Session, in.Attempt, formatUnit(in.Atom, in.Part))
	case towpath.AtomDone:
		r := in.Report
		t := fmt.Sprintf("report %s %s %s %s %v", in.Session, in.Attempt, formatUnit(in.Atom, in.Part), r.Outcome, r.Duration)
		if len(r.Failed) > 0 {
			t += " failed=" + strings.Join(r.Failed, ",")
		}
		if len(r.Cases) > 0 {
			var names []string
			for i := range r.Cases {
				names = append(names, r.Cases[i].Name)
			}
			t += " cases=" + strings.Join(names, ",")
		}
		if r.Reason != "" {
			t += " " + r.Reason
		}
		return t
	case towpath.Done:
		t := fmt.Sprintf("done %s %s %s", in.Session, in.Attempt, in.Outcome)
		if in.Atoms != nil {
			t += " atoms=" + strings.Join(in.Atoms, ",")
		}
		if in.Reason != "" {
			t += " " + in.Reason
		}
		return t
	case towpath.Recalled:
		var t strings.Builder
		fmt.Fprintf(&t, "recalled %s %s", in.Session, in.Attempt)
		for _, u := range in.Units {
			t.WriteString(" " + formatUnit(u.Atom, u.Part))
		}
		return t.String()
	case towpath.Cancel:
		return strings.TrimSpace(fmt.Sprintf("cancel %d %s", in.Build, in.By))
	case towpath.Tick:
		return "tick"
	}
	return fmt.Sprintf("# %T cannot be written", in)
}

// formatUnit writes an atom's index as #0, and its part as #0/1.
func formatUnit(atom, part int) string {
	if part == 0 {
		return "#" + strconv.Itoa(atom)
	}
	return "#" + strconv.Itoa(atom) + "/" + strconv.Itoa(part)
}

func parseUnit(t string) (towpath.Unit, error) {
	var u towpath.Unit
	atom, part, isPart := strings.Cut(strings.TrimPrefix(t, "#"), "/")
	var err error
	if u.Atom, err = strconv.Atoi(atom); err != nil {
		return u, fmt.Errorf("unit %q: want #ATOM or #ATOM/PART", t)
	}
	if isPart {
		if u.Part, err = strconv.Atoi(part); err != nil {
			return u, fmt.Errorf("unit %q: want #ATOM or #ATOM/PART", t)
		}
	}
	return u, nil
}

// Parse reads one line that Format wrote.
func Parse(line string) (towpath.Input, error) {
	f := strings.Fields(line)
	if len(f) == 0 {
		return nil, fmt.Errorf("empty line")
	}
	verb, f := f[0], f[1:]
	need := map[string]int{
		"submit": 1, "cancel": 1, "hello": 1, "beat": 1, "drain": 1, "goodbye": 1, "started": 2, "began": 3, "report": 4, "done": 3, "recalled": 2,
	}
	if len(f) < need[verb] {
		return nil, fmt.Errorf("%s wants %d words, got %d", verb, need[verb], len(f))
	}
	rest := func(i int) string {
		if len(f) <= i {
			return ""
		}
		return strings.Join(f[i:], " ")
	}
	switch verb {
	case "tick":
		return towpath.Tick{}, nil
	case "submit":
		return parseSubmit(f)
	case "cancel":
		n, err := strconv.Atoi(f[0])
		return towpath.Cancel{Build: towpath.BuildNumber(n), By: rest(1)}, err
	case "hello":
		return parseHello(f)
	}
	id := towpath.SessionID(f[0])
	switch verb {
	case "beat":
		return towpath.Beat{Session: id}, nil
	case "drain":
		return towpath.Drain{Session: id}, nil
	case "goodbye":
		return towpath.Goodbye{Session: id, Reason: rest(1)}, nil
	case "started":
		return towpath.Started{Session: id, Attempt: towpath.AttemptID(f[1])}, nil
	case "recalled":
		in := towpath.Recalled{Session: id, Attempt: towpath.AttemptID(f[1])}
		for _, t := range f[2:] {
			u, err := parseUnit(t)
			if err != nil {
				return nil, err
			}
			in.Units = append(in.Units, u)
		}
		return in, nil
	case "began":
		u, err := parseUnit(f[2])
		return towpath.AtomBegan{Session: id, Attempt: towpath.AttemptID(f[1]), Atom: u.Atom, Part: u.Part}, err
	case "done":
		in := towpath.Done{Session: id, Attempt: towpath.AttemptID(f[1]), Outcome: towpath.Outcome(f[2])}
		f = f[3:]
		if len(f) > 0 && strings.HasPrefix(f[0], "atoms=") {
			in.Atoms = []string{}
			if v := strings.TrimPrefix(f[0], "atoms="); v != "" {
				in.Atoms = strings.Split(v, ",")
			}
			f = f[1:]
		}
		in.Reason = rest(0)
		return in, nil
	case "report":
		return parseReport(id, f)
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

func parseSubmit(f []string) (towpath.Input, error) {
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return nil, fmt.Errorf("submit: build %q is no number", f[0])
	}
	in := towpath.Submit{Build: towpath.BuildNumber(n)}
	var words []string
	for _, w := range f[1:] {
		if v, ok := strings.CutPrefix(w, "only="); ok {
			p := strings.Split(v, ":")
			in.Only = append(in.Only, towpath.Selection{Atom: p[0], Cases: p[1:]})
			continue
		}
		words = append(words, w)
	}
	in.Job, in.Estimates, err = ParseJob(words)
	return in, err
}

func parseHello(f []string) (towpath.Input, error) {
	in := towpath.Hello{Session: towpath.SessionID(f[0]), Slots: 1}
	for _, w := range f[1:] {
		key, v, _ := strings.Cut(w, "=")
		switch key {
		case "agent":
			in.Agent = v
		case "labels":
			in.Labels = strings.Split(v, ",")
		case "slots":
			n, err := strconv.Atoi(v)
			if err != nil {
				return nil, fmt.Errorf("hello: slots %q is no number", v)
			}
			in.Slots = n
		default:
			return nil, fmt.Errorf("hello: unknown word %q", w)
		}
	}
	return in, nil
}

func parseReport(id towpath.SessionID, f []string) (towpath.Input, error) {
	u, err := parseUnit(f[2])
	if err != nil {
		return nil, err
	}
	in := towpath.AtomDone{Session: id, Attempt: towpath.AttemptID(f[1]), Atom: u.Atom, Part: u.Part}
	in.Report.Outcome = towpath.Outcome(f[3])
	f = f[4:]
	if len(f) > 0 {
		if d, err := time.ParseDuration(f[0]); err == nil {
			in.Report.Duration = d
			f = f[1:]
		}
	}
	for len(f) > 0 {
		if v, ok := strings.CutPrefix(f[0], "failed="); ok {
			in.Report.Failed = strings.Split(v, ",")
		} else if v, ok := strings.CutPrefix(f[0], "cases="); ok {
			for name := range strings.SplitSeq(v, ",") {
				in.Report.Cases = append(in.Report.Cases, towpath.Case{Name: name, Select: name, State: towpath.CaseFailed})
			}
		} else {
			break
		}
		f = f[1:]
	}
	in.Report.Reason = strings.Join(f, " ")
	return in, nil
}
