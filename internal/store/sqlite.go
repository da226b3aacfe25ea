package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/towpath/towpath"
)

// readers is how many reads run at once; more wait.
const readers = 4

func (db *DB) open(ctx context.Context, o Options) error {
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return err
	}
	var err error
	if db.writer, err = sql.Open("sqlite", dsn(o, "foreign_keys(1)")); err != nil {
		return err
	}
	db.writer.SetMaxOpenConns(1)
	if err := migrate(ctx, db.writer, o.Path); err != nil {
		return err
	}
	if db.conn, err = db.writer.Conn(ctx); err != nil {
		return err
	}
	// Waiting for other processes is begin's affair from here on.
	if _, err = db.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	if db.reader, err = sql.Open("sqlite", dsn(o, "query_only(1)")); err != nil {
		return err
	}
	db.reader.SetMaxOpenConns(readers)
	db.reader.SetMaxIdleConns(readers)
	return nil
}

func dsn(o Options, more string) string {
	q := url.Values{}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", o.Busy.Milliseconds()))
	q.Add("_pragma", more)
	q.Add("_pragma", fmt.Sprintf("synchronous(%s)", o.Sync))
	q.Add("_pragma", "cache_size(-16384)")
	// The WAL is cut back to this after a checkpoint, so that one huge batch does not keep its size for good.
	q.Add("_pragma", "journal_size_limit(67108864)")
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: o.Path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

func isDuplicate(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT
}

// Transient reports whether an error is known to pass, so that a write may be tried again: a disk that is full, another
// process that holds the file, a wait that was given up.
func Transient(err error) bool {
	if towpath.CodeOf(err) == towpath.CodeUnavailable || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_ABORT, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// Permanent reports whether an error is known to come again with every write: a table that is missing, a damaged file. One
// that is neither permanent nor transient says something of what was to be written, or nothing that is known.
func Permanent(err error) bool {
	if err == nil || Transient(err) {
		return false
	}
	if towpath.CodeOf(err) == towpath.CodeConfig {
		return true
	}
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_ERROR
}

// explain turns what the database says into one line with the place and the remedy. Errors of ours pass through.
func (db *DB) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	var ours *towpath.Error
	if errors.As(err, &ours) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	say := func(code towpath.Code, found, remedy string) error {
		return &towpath.Error{Code: code, Message: fmt.Sprintf("%s %s: %s; %s", what, db.path, found, remedy), Err: err}
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, os.ErrPermission):
			return say(towpath.CodeConfig, "permission denied", "make the directory writable or set another with --state-dir")
		case isNoSpace(err):
			return say(towpath.CodeUnavailable, "disk full", "make room; Towpath goes on by itself")
		case errors.Is(err, os.ErrExist), isNotDir(err):
			return say(towpath.CodeConfig, "a part of the path is not a directory", "move it away or set another with --state-dir")
		case isReadOnlyFS(err):
			return say(towpath.CodeConfig, "read-only file system", "set another directory with --state-dir")
		}
		if p := (*os.PathError)(nil); errors.As(err, &p) {
			return say(towpath.CodeConfig, p.Err.Error(), "set another directory with --state-dir")
		}
		return fmt.Errorf("%s %s: %w", what, db.path, err)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return say(towpath.CodeUnavailable, "disk full", "make room; Towpath goes on by itself")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return say(towpath.CodeConfig, "read-only", "make the file and its directory writable or set another with --state-dir")
	case sqlite3.SQLITE_CANTOPEN:
		return say(towpath.CodeConfig, "it cannot be opened", "make the file and its directory readable and writable or set another with --state-dir")
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return say(towpath.CodeConfig, "not a database, or damaged", "move the file away to begin anew; recorded durations and past builds are then gone")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return say(towpath.CodeUnavailable, "another process holds it for too long", "try again; towpath ps names who runs builds")
	case sqlite3.SQLITE_IOERR:
		return say(towpath.CodeUnavailable, "input/output error", "look at the disk's health and room")
	case sqlite3.SQLITE_ERROR:
		return say(towpath.CodeInternal, e.Error(), "another program changed the file, or this is a fault of Towpath; "+
			"move the file away to begin anew; recorded durations and past builds are then gone")
	}
	return fmt.Errorf("%s %s: %w", what, db.path, err)
}
