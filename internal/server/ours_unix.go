//go:build unix

package server

import (
	"io/fs"
	"os"
	"syscall"
)

// ours says whether a file belongs to this user.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
