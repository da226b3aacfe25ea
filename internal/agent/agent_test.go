package agent_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/agent"
	"github.com/towpath/towpath/internal/executor/process"
	"github.com/towpath/towpath/internal/runner"
	"github.com/towpath/towpath/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guard bounds what a test waits for; it is far above what anything here takes.
const guard = time.Minute

// server is a Towpath server as an agent sees it: a real hub, and a sink that keeps all it is given.
type server struct {
	t   testing.TB
	hub *session.Hub

	mu     sync.Mutex
	inputs []towpath.Input
	logs   map[string]map[int][]session.LogChunk
	news   chan struct{} // closed and made anew with each change
	answer func(towpath.Input) error
	last   net.Conn // the newest connection's end
}

func (s *server) Inputs(_ context.Context, ins []towpath.Input) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(ins))
	for i, in := range ins {
		if s.answer != nil {
			errs[i] = s.answer(in)
		}
		if errs[i] == nil {
			s.inputs = append(s.inputs, in)
		}
	}
	close(s.news)
	s.news = make(chan struct{})
	return errs
}

func (s *server) Logs(_ context.Context, chunks []session.LogChunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range chunks {
		a := string(c.Attempt)
		if s.logs[a] == nil {
			s.logs[a] = make(map[int][]session.LogChunk)
		}
		s.logs[a][c.Unit] = append(s.logs[a][c.Unit], c)
	}
	return nil
}

// text is a log as far as it was kept.
func (s *server) text(attempt string, unit int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, c := range s.logs[attempt][unit] {
		b.Write(c.Data)
	}
	return b.String()
}

// await returns the first input of type T for which ok, waiting until there is one.
func await[T towpath.Input](s *server, ok func(T) bool) T {
	s.t.Helper()
	limit := time.NewTimer(guard)
	defer limit.Stop()
	for {
		s.mu.Lock()
		news := s.news
		for _, in := range s.inputs {
			if in, is := in.(T); is && (ok == nil || ok(in)) {
				s.mu.Unlock()
				return in
			}
		}
		s.mu.Unlock()
		select {
		case <-news:
		case <-limit.C:
			var zero T
			s.t.Fatalf("no such %T within %v; inputs: %+v", zero, guard, s.inputs)
		}
	}
}

func all[T towpath.Input](s *server) (found []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.inputs {
		if in, is := in.(T); is {
			found = append(found, in)
		}
	}
	return found
}

// start runs an agent with a server of its own until the test ends, and returns once its session is open.
func start(tb testing.TB, change func(*agent.Config)) (*server, towpath.SessionID) {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{tb}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithCancel(tb.Context())
	s := &server{
		t: tb, logs: make(map[string]map[int][]session.LogChunk), news: make(chan struct{}),
	}
	s.hub = session.NewHub(session.Config{Sink: s, Logger: log})
	exec, err := process.New(process.Config{WithoutCgroup: true})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := agent.Config{
		Name: "a1", Slots: 2, Dir: tb.TempDir(), Env: os.Environ(), Executor: exec, Logger: log, Runner: runner.For,
		Scratch: tb.TempDir(), Grace: 500 * time.Millisecond,
	}
	var sessions, agents sync.WaitGroup
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sessions.Go(func() { _ = s.hub.Serve(context.WithoutCancel(ctx), theirs) })
		s.mu.Lock()
		s.last = theirs
		s.mu.Unlock()
		return ours, nil
	}
	if change != nil {
		change(&cfg)
	}
	agents.Go(func() {
		if err := agent.Run(ctx, cfg); err != nil {
			tb.Errorf("agent: %v", err)
		}
	})
	tb.Cleanup(func() {
		cancel()
		agents.Wait()
		sessions.Wait()
		if err := exec.Close(context.WithoutCancel(ctx)); err != nil {
			tb.Errorf("executor: %v", err)
		}
		if left, err := os.ReadDir(cfg.Scratch); err != nil || len(left) > 0 {
			tb.Errorf("the agent left %v in its scratch directory (%v)", left, err)
		}
	})
	return s, await[towpath.Hello](s, nil).Session
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

var _ io.Writer = testWriter{}

// offer sends an offer that is complete but for what the test is about.
func (s *server) offer(id towpath.SessionID, o towpath.Offer) {
	s.t.Helper()
	o.Session = id
	if o.Build == 0 {
		o.Build, o.Number = 7, 3
	}
	if o.Kind == "" {
		o.Kind = towpath.AttemptRun
	}
	if o.Limit == 0 {
		o.Limit = guard
	}
	if err := s.hub.Send(o); err != nil {
		s.t.Fatal(err)
	}
}

func units(names ...string) (us []towpath.OfferedUnit) {
	for i, n := range names {
		us = append(us, towpath.OfferedUnit{Unit: towpath.Unit{Atom: i + 10}, Name: n, Limit: guard})
	}
	return us
}

func done(s *server, attempt string) towpath.Done {
	s.t.Helper()
	return await(s, func(d towpath.Done) bool { return d.Attempt == towpath.AttemptID(attempt) })
}

func report(s *server, attempt string, atom int) towpath.AtomReport {
	s.t.Helper()
	return await(s, func(d towpath.AtomDone) bool {
		return d.Attempt == towpath.AttemptID(attempt) && d.Atom == atom
	}).Report
}

func TestAnOfferedAtomIsRunAndReportedWithItsLog(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	job := &towpath.Job{Run: `echo "ran $1"; test "$1" != bad || { echo oh no >&2; exit 7; }`, PerAtom: true, Slots: 1}
	s.offer(id, towpath.Offer{Attempt: "one", Job: job, Units: units("good one", "bad")})
	if d := done(s, "one"); d.Outcome != towpath.OutcomePassed {
		t.Errorf("the attempt ended as %+v", d)
	}
	if r := report(s, "one", 10); r.Outcome != towpath.OutcomePassed || r.Duration <= 0 {
		t.Errorf("the good atom's report is %+v", r)
	}
	r := report(s, "one", 11)
	if r.Outcome != towpath.OutcomeFailed || r.ExitCode != 7 || !strings.Contains(r.Reason, "exit status 7") {
		t.Errorf("the bad atom's report is %+v", r)
	}
	if got, want := s.text("one", 0), "ran good one\n"; got != want {
		t.Errorf("the first log is %q, want %q", got, want)
	}
	if got := s.text("one", 1); !strings.Contains(got, "ran bad\n") || !strings.Contains(got, "oh no\n") {
		t.Errorf("the second log is %q, and lacks what went to standard output or error", got)
	}
	if n := len(all[towpath.AtomBegan](s)); n != 2 {
		t.Errorf("%d atoms began, want 2", n)
	}
}

func TestACommandSeesWhatTheContractNames(t *testing.T) {
	t.Parallel()
	s, id := start(t, func(c *agent.Config) { c.Env = append(c.Env, "TOWPATH_ATOM=outer", "OVER=base") })
	job := &towpath.Job{Slots: 1, Env: map[string]string{"OVER": "job", "MINE": "a b"}, Run: `
		echo "atom=${TOWPATH_ATOM-none} build=$TOWPATH_BUILD attempt=$TOWPATH_ATTEMPT slot=$TOWPATH_SLOT ci=$CI"
		echo "over=$OVER mine=$MINE args=$*"
		cat "$TOWPATH_ATOMS_FILE"
		ls -A "$TOWPATH_REPORTS" "$TOWPATH_ARTIFACTS" | grep -v ':$' || true
		false | true && echo nopipefail || echo pipefail`}
	s.offer(id, towpath.Offer{Attempt: "two", Job: job, Units: units("x", `$(y) "z"`)})
	done(s, "two")
	want := "atom=none build=7 attempt=3 slot=1 ci=true\nover=job mine=a b args=x $(y) \"z\"\nx\n$(y) \"z\"\n\npipefail\n"
	if got := s.text("two", -1); got != want {
		t.Errorf("the command said\n%s\nwant\n%s", got, want)
	}
}

func TestListingTakesLinesOrGlobs(t *testing.T) {
	t.Parallel()
	var dir string
	s, id := start(t, func(c *agent.Config) { dir = c.Dir })
	for _, f := range []string{"a/x_test.py", "a/b/y_test.py", "z_test.py", "node_modules/n_test.py", ".git/g_test.py", "a/no.py"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "a/loop")); err != nil {
		t.Fatal(err)
	}
	list := func(attempt string, a towpath.AtomSource) towpath.Done {
		s.offer(id, towpath.Offer{Attempt: towpath.AttemptID(attempt), Kind: towpath.AttemptList, Job: &towpath.Job{Atoms: a}})
		return done(s, attempt)
	}
	d := list("glob", towpath.AtomSource{Glob: []string{"**/*_test.py", "./a/**/*_test.py"}})
	if got, want := strings.Join(d.Atoms, " "), "a/b/y_test.py a/x_test.py z_test.py"; got != want || d.Outcome != towpath.OutcomePassed {
		t.Errorf("the glob gave %q (%s %s), want %q", got, d.Outcome, d.Reason, want)
	}
	d = list("lines", towpath.AtomSource{Command: "seq 100000"})
	if len(d.Atoms) != 100000 || d.Atoms[99999] != "100000" {
		t.Errorf("100,000 lines gave %d atoms (%s %s)", len(d.Atoms), d.Outcome, d.Reason)
	}
	d = list("fails", towpath.AtomSource{Command: "echo partly; echo no such thing >&2; exit 3"})
	if d.Outcome != towpath.OutcomeFailed || d.Reason != "exit status 3: no such thing" || len(d.Atoms) != 0 {
		t.Errorf("a listing that fails gave %+v", d)
	}
	if got, want := s.text("fails", -1), "no such thing\npartly\n"; got != want {
		t.Errorf("its log is %q, want %q", got, want)
	}
	d = list("bad", towpath.AtomSource{Glob: []string{"a/[x"}})
	if d.Outcome != towpath.OutcomeFailed || !strings.Contains(d.Reason, `glob "a/[x" is not valid`) {
		t.Errorf("a bad glob gave %+v", d)
	}
}

func TestAListingWithoutEndIsStoppedAtOnce(t *testing.T) {
	t.Parallel()
	s, id := start(t, nil)
	begun := time.Now()
	s.offer(id, towpath.Offer{
		Attempt: "yes", Kind: towpath.AttemptList, Limit: 10 * time.Minute,
		Job: &towpath.Job{Atoms: towpath.AtomSource{Command: "echo looking >&2; yes"}},
	})
	d := done(s, "yes")
	if d.Outcome != towpath.OutcomeFailed || d.Reason != "the command printed more than 32 MiB" || len(d.Atoms) != 0 {
		t.Errorf("it gave %s, %q and %d atoms", d.Outcome, d.Reason, len(d.Atoms))
	}
	if took := time.Since(begun); took > guard/2 {
		t.Errorf("it took %v", took)
	}
	if text := s.text("yes", -1); !strings.HasPrefix(text, "looking\ny\ny\n") {
		t.Errorf("the log begins %.40q", text)
	}
	// The attempt's own end was not hurried: the session goes on.
	s.offer(id, towpath.Offer{Attempt: "next", Kind: towpath.AttemptList, Job: &towpath.Job{Atoms: towpath.AtomSource{Command: "seq 3"}}})
	if d := done(s, "next"); d.Outcome != towpath.OutcomePassed || len(d.Atoms) != 3 {
		t.Errorf("the next listing gave %+v", d)
	}
}
