package store

import (
	"errors"

	"golang.org/x/sys/windows"
)

func isNoSpace(err error) bool    { return errors.Is(err, windows.ERROR_DISK_FULL) }
func isNotDir(err error) bool     { return errors.Is(err, windows.ERROR_DIRECTORY) }
func isReadOnlyFS(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }
