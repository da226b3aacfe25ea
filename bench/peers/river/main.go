// Command river does with River what bench measures of Towpath: jobs of a no-op worker on a new SQLite file, by the same
// driver and with the same pragmas. It prints its figures as one line of JSON. The benchmarks build and run it.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver
)

type config struct {
	mode    string
	sync    string
	jobs    int
	workers int
	every   time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.mode, "mode", "throughput", "throughput: all jobs at once; latency: one after another at -every")
	flag.StringVar(&c.sync, "sync", "normal", "SQLite's synchronous: normal or full")
	flag.IntVar(&c.jobs, "jobs", 10_000, "how many jobs")
	flag.IntVar(&c.workers, "workers", 64, "how many run at once")
	flag.DurationVar(&c.every, "every", 20*time.Millisecond, "with latency: the time between jobs")
	flag.Parse()
	if err := run(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// figures is what is printed.
type figures struct {
	Seconds float64   `json:"seconds,omitempty"`  // throughput: from the insertion to the last job's stored end
	StartMS []float64 `json:"start_ms,omitempty"` // latency: from when each job was due to when it was worked
}

func run(ctx context.Context, c config) error {
	dir, err := os.MkdirTemp("", "river-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pragmas := url.Values{"_pragma": {"journal_mode(WAL)", "busy_timeout(10000)", "synchronous(" + c.sync + ")"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "river.db")+"?"+pragmas.Encode())
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // as the driver's documentation asks for
	driver := riversqlite.New(db)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	w := &worker{began: time.Now(), started: make(chan float64, c.jobs)}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(driver, &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: c.workers}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: river.FetchPollIntervalMin,
	})
	if err != nil {
		return err
	}
	ended, cancel := client.Subscribe(river.EventKindJobCompleted)
	defer cancel()
	if err := client.Start(ctx); err != nil {
		return err
	}
	var f figures
	switch c.mode {
	case "throughput":
		f.Seconds, err = throughput(ctx, client, c, db)
	case "latency":
		f.StartMS, err = latency(ctx, client, c, w, ended)
	default:
		err = fmt.Errorf("no mode %q", c.mode)
	}
	if err := errors.Join(err, client.Stop(ctx)); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

type args struct {
	Due time.Duration `json:"due"`
}

// Kind names the kind of job.
func (args) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[args]
	began   time.Time
	started chan float64
	worked  atomic.Int64
}

// Work says how late it is.
func (w *worker) Work(_ context.Context, job *river.Job[args]) error {
	w.started <- float64(time.Since(w.began)-job.Args.Due) / 1e6
	w.worked.Add(1)
	return nil
}

// throughput inserts all jobs at once, as one build submits its atoms, and waits until each is stored as completed.
func throughput(ctx context.Context, client *river.Client[*sql.Tx], c config, db *sql.DB) (float64, error) {
	all := make([]river.InsertManyParams, c.jobs)
	for i := range all {
		all[i].Args = args{Due: time.Duration(i)}
	}
	start := time.Now()
	if _, err := client.InsertMany(ctx, all); err != nil {
		return 0, err
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&n); err != nil {
			return 0, err
		}
		if n == c.jobs {
			return time.Since(start).Seconds(), nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// latency inserts a job at each tick, whatever becomes of the earlier ones.
func latency(ctx context.Context, client *river.Client[*sql.Tx], c config, w *worker, ended <-chan *river.Event) ([]float64, error) {
	var inserts sync.WaitGroup
	errs := make(chan error, c.jobs) // one of each insertion at most
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for range c.jobs {
		<-tick.C
		inserts.Go(func() {
			if _, err := client.Insert(ctx, args{Due: time.Since(w.began)}, nil); err != nil {
				errs <- err
			}
		})
	}
	inserts.Wait()
	close(errs)
	for err := range errs {
		return nil, err
	}
	var took []float64
	for range c.jobs {
		took = append(took, <-w.started)
		<-ended
	}
	return took, nil
}
