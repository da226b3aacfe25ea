package store_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/towpath/towpath/internal/store"
	"github.com/towpath/towpath/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestSQLiteDoesWhatEveryStoreMust(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { //nolint:thelper // it fails as the test does
		return open(t, filepath.Join(t.TempDir(), "towpath.db"))
	})
}
