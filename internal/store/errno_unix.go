//go:build unix

package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

func isNoSpace(err error) bool    { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
func isNotDir(err error) bool     { return errors.Is(err, unix.ENOTDIR) }
func isReadOnlyFS(err error) bool { return errors.Is(err, unix.EROFS) }
