package store

import (
	"context"
	"strconv"
)

// LimitPages lets the file grow to so many pages only, as if its disk were full then. 0: no limit.
func (db *DB) LimitPages(ctx context.Context, pages int) error {
	db.turn <- struct{}{}
	defer func() { <-db.turn }()
	if pages == 0 {
		pages = 1 << 30
	}
	return (&tx{ctx: ctx, db: db}).each("PRAGMA max_page_count = "+strconv.Itoa(pages), nil, func(scanner) error { return nil })
}

// Pages is how many pages the file has.
func (db *DB) Pages(t interface {
	Context() context.Context
	Fatal(args ...any)
},
) (pages int) {
	if err := db.each(t.Context(), "PRAGMA page_count", nil, func(s scanner) error { return s.Scan(&pages) }); err != nil {
		t.Fatal(err)
	}
	return pages
}
