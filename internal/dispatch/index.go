package dispatch

import (
	"sync"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/store"
)

// index says of builds that sched holds what callers need before they ask the loop. The loop writes it.
type index struct {
	mu       sync.Mutex
	builds   map[towpath.BuildNumber]*indexed // +checklocks:mu
	attempts map[towpath.AttemptID]attemptRef // +checklocks:mu
}

type indexed struct {
	project  string
	job      string
	attempts []towpath.AttemptID
}

type attemptRef struct {
	build   towpath.BuildNumber
	session towpath.SessionID
}

func newIndex() index {
	return index{builds: map[towpath.BuildNumber]*indexed{}, attempts: map[towpath.AttemptID]attemptRef{}}
}

// reset forgets everything but the projects of builds, which may be about to be submitted.
func (x *index) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.attempts)
	for _, b := range x.builds {
		b.attempts = nil
	}
}

// name says which project a build is of.
func (x *index) name(n towpath.BuildNumber, project string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.buildLocked(n).project = project
}

func (x *index) buildLocked(n towpath.BuildNumber) *indexed {
	b := x.builds[n]
	if b == nil {
		b = &indexed{}
		x.builds[n] = b
	}
	return b
}

// unnamed lists builds of which the project is not known.
func (x *index) unnamed() []towpath.BuildNumber {
	x.mu.Lock()
	defer x.mu.Unlock()
	var builds []towpath.BuildNumber
	for n, b := range x.builds {
		if b.project == "" {
			builds = append(builds, n)
		}
	}
	return builds
}

func (x *index) follow(events []towpath.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range events {
		switch v := e.Body.(type) {
		case towpath.BuildSubmitted:
			x.buildLocked(e.Build).job = v.Job.Name
		case towpath.AttemptOffered:
			b := x.buildLocked(e.Build)
			b.attempts = append(b.attempts, v.Attempt)
			x.attempts[v.Attempt] = attemptRef{e.Build, v.Session}
		case towpath.AttemptEnded:
			if v.Lost {
				delete(x.attempts, v.Attempt) // its session is fenced: no more logs of it
			}
		}
	}
}

func (x *index) release(n towpath.BuildNumber) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b := x.builds[n]; b != nil {
		for _, id := range b.attempts {
			delete(x.attempts, id)
		}
		delete(x.builds, n)
	}
}

// holds says whether sched holds the build.
func (x *index) holds(n towpath.BuildNumber) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.builds[n] != nil
}

// job gives the project and the job that an attempt belongs to.
func (x *index) job(id towpath.AttemptID) (project, job string, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ref, ok := x.attempts[id]
	if !ok {
		return "", "", false
	}
	b := x.builds[ref.build]
	return b.project, b.job, true
}

// accept appends those chunks whose attempt belongs to the session, with the number of its build. Others come from a session that was
// lost, or after the end of everything.
func (x *index) accept(to []store.LogChunk, session towpath.SessionID, chunks []store.LogChunk) []store.LogChunk {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range chunks {
		if ref, ok := x.attempts[c.Attempt]; ok && ref.session == session {
			c.Build = ref.build
			to = append(to, c)
		}
	}
	return to
}
