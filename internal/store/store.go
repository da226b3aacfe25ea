// Package store remembers: events of builds, the read models that lists and pages are made of, cases, logs, and how
// long each atom took. It is the only place of Towpath that speaks SQL. The dispatch loop writes through Commit, one
// transaction for a whole round of decisions; everybody else reads, or asks for a number. It decides nothing: what an
// event means for scheduling is settled before it comes here, and a state it shows is never an input of a decision.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/towpath/towpath"
)

// Sync says what a commit survives.
type Sync string

// Both survive the death of the process at any moment. SyncFull also survives a loss of power, at the price of one
// flush of the disk a commit; with SyncNormal such a loss may take the last commits, never the file.
const (
	SyncNormal Sync = "normal"
	SyncFull   Sync = "full"
)

// Options say where the database is. Path is required; the rest may be zero.
type Options struct {
	Path   string        // of the database file; its directory is made if it is missing
	Sync   Sync          // SyncNormal by default
	Busy   time.Duration // how long a write waits for another process's: 10 s by default
	Logger *slog.Logger  // discards by default
}

// DB is an open database. Its methods may be called from many goroutines; several processes may have the same file open.
type DB struct {
	path   string
	log    *slog.Logger
	busy   time.Duration
	reader *sql.DB
	writer *sql.DB
	conn   *sql.Conn // the writer's only connection
	codec  codec

	// turn has one slot. Whoever has put a token in uses conn, stmts, live and closed until taking it out again.
	turn   chan struct{}
	stmts  map[string]*sql.Stmt
	live   live
	closed bool
}

// Open opens the database, makes it if it is missing, and brings an older one up to date. A database written by a newer
// Towpath is left alone.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Sync == "" {
		o.Sync = SyncNormal
	}
	if o.Busy == 0 {
		o.Busy = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{path: o.Path, log: o.Logger, busy: o.Busy, turn: make(chan struct{}, 1), stmts: map[string]*sql.Stmt{}, live: newLive()}
	var err error
	if db.codec, err = newCodec(); err != nil {
		return nil, err
	}
	if err := db.open(ctx, o); err != nil {
		return nil, errors.Join(db.explain("open database", err), db.closeAll())
	}
	return db, nil
}

// Close waits for a write in progress and closes the file. It may be called twice.
func (db *DB) Close() error {
	db.turn <- struct{}{} // bounded: a write holds it for one transaction
	defer func() { <-db.turn }()
	if db.closed {
		return nil
	}
	db.closed = true
	return db.closeAll()
}

func (db *DB) closeAll() error {
	db.codec.close()
	var errs []error
	for _, s := range db.stmts {
		errs = append(errs, s.Close())
	}
	if db.conn != nil {
		errs = append(errs, db.conn.Close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.Close())
	}
	if db.reader != nil {
		errs = append(errs, db.reader.Close())
	}
	return errors.Join(errs...)
}

// Path is where the database file is.
func (db *DB) Path() string { return db.path }

var errClosed = towpath.Errorf(towpath.CodeUnavailable, "the store is closed: Towpath is stopping")

// busyPause is about how long a write waits before it looks again whether another process has finished its own.
const busyPause = time.Millisecond

// tx is the writer's connection in a transaction.
type tx struct {
	ctx context.Context //nolint:containedctx // of the one transaction that it is
	db  *DB
}

// update runs f in a write transaction. Once begun it runs to its end whatever becomes of ctx: an interrupted commit
// would leave unknown whether it happened. The wait for other processes is bounded by Options.Busy.
func (db *DB) update(ctx context.Context, what string, f func(*tx) error) error {
	select {
	case db.turn <- struct{}{}:
		defer func() { <-db.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if db.closed {
		return errClosed
	}
	t := &tx{ctx: context.WithoutCancel(ctx), db: db}
	if err := t.begin(ctx); err != nil {
		return db.explain(what, err)
	}
	err := f(t)
	if err == nil {
		err = t.exec("COMMIT")
	}
	if err != nil {
		_ = t.exec("ROLLBACK") // SQLite has rolled back by itself after some errors, and then this one says so
		db.live = newLive()    // it may hold what was not written
	}
	return db.explain(what, err)
}

// alone runs a statement that must not be in a transaction.
func (db *DB) alone(ctx context.Context, what, query string) error {
	select {
	case db.turn <- struct{}{}:
		defer func() { <-db.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if db.closed {
		return errClosed
	}
	t := &tx{ctx: context.WithoutCancel(ctx), db: db}
	return db.explain(what, t.each(query, nil, func(scanner) error { return nil }))
}

// begin waits for the turn of this process among those that have the file open. SQLite's own wait backs off so far that a
// process which writes all the time keeps others out for half a second; a short pause of random length does not.
func (t *tx) begin(ctx context.Context) error {
	until := time.Now().Add(t.db.busy)
	for {
		err := t.exec("BEGIN IMMEDIATE")
		if err == nil || !isBusy(err) || time.Now().After(until) {
			return err
		}
		pause := time.NewTimer(busyPause/2 + rand.N(busyPause))
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}

func (t *tx) stmt(query string) (*sql.Stmt, error) {
	if s, ok := t.db.stmts[query]; ok {
		return s, nil
	}
	s, err := t.db.conn.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	t.db.stmts[query] = s
	return s, nil
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.execCount(query, args...)
	return err
}

func (t *tx) execCount(query string, args ...any) (sql.Result, error) {
	s, err := t.stmt(query) //nolint:sqlclosecheck // closeAll does
	if err != nil {
		return nil, err
	}
	return s.ExecContext(t.ctx, args...)
}

// each reads all rows of a query. f must not use t.
func (t *tx) each(query string, args []any, f func(scanner) error) error {
	s, err := t.stmt(query) //nolint:sqlclosecheck // closeAll does
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, f)
}

// each reads all rows of a query with a reader's connection. f must not query.
func (db *DB) each(ctx context.Context, query string, args []any, f func(scanner) error) error {
	rows, err := db.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, f)
}

type scanner interface{ Scan(dest ...any) error }

func eachRow(rows *sql.Rows, f func(scanner) error) error {
	for rows.Next() {
		if err := f(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// micros is how times are stored; 0 is no time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n)
}
