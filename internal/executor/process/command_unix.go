//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/towpath/towpath"
	"github.com/towpath/towpath/internal/executor"
)

// defaultPath is where commands are looked up for a task without a PATH, as execvp does it.
const defaultPath = "/bin:/usr/bin"

// lookUp finds the file of a task's command in the task's own PATH.
func lookUp(t executor.Task) (string, error) {
	if len(t.Argv) == 0 || t.Argv[0] == "" {
		return "", towpath.Errorf(towpath.CodeConfig, "task %s has no command", t.ID)
	}
	name := t.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil // relative to the task's directory, where it is started
	}
	var denied string
	for dir := range strings.SplitSeq(pathOf(t.Env), ":") {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(path) {
			path = "./" + path
		}
		info, err := os.Stat(within(t.Dir, path))
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			denied = path
		default:
			return path, nil
		}
	}
	if denied != "" {
		return "", towpath.Errorf(towpath.CodeConfig, "cannot run %q: %s is not executable; make it so with chmod +x", name, denied)
	}
	return "", towpath.Errorf(towpath.CodeConfig, "cannot run %q: no such command in PATH (%s); install it or give its path", name, pathOf(t.Env))
}

func pathOf(env []string) string {
	path := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	return path
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// explainStart says why a command was not started: what is wrong with it, or what this host lacks just now.
func explainStart(t executor.Task, path string, err error) error {
	name := t.Argv[0]
	config := func(format string, args ...any) error {
		return &towpath.Error{Code: towpath.CodeConfig, Message: fmt.Sprintf("cannot run %q: ", name) + fmt.Sprintf(format, args...), Err: err}
	}
	if late := (*lateStartError)(nil); errors.As(err, &late) {
		return &towpath.Error{Code: towpath.CodeUnavailable, Err: err, Message: fmt.Sprintf(
			"%q did not start in time; is the file system of %s or of directory %s away?", name, path, t.Dir)}
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("start %q: %w", name, err)
	}
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EBUSY:
		return &towpath.Error{Code: towpath.CodeUnavailable, Err: err, Message: fmt.Sprintf(
			"cannot start %q just now: %s; this host has too little of processes, memory or open files left", name, errno)}
	case syscall.E2BIG:
		return config("argument list too long: %d bytes of arguments and %d of environment; take the atoms from $TOWPATH_ATOMS_FILE or make batches smaller",
			size(t.Argv), size(t.Env))
	case syscall.EINVAL:
		return config("an argument or an environment variable holds a NUL byte, or the file is not a program")
	default: // the files below tell more
	}
	if info, derr := os.Stat(t.Dir); t.Dir != "" && derr != nil {
		return config("its directory %s cannot be used: %s", t.Dir, reason(derr))
	} else if t.Dir != "" && !info.IsDir() {
		return config("its directory %s is a file", t.Dir)
	}
	file := within(t.Dir, path)
	info, ferr := os.Stat(file)
	switch {
	case ferr != nil:
		return config("%s: %s", file, reason(ferr))
	case info.IsDir():
		return config("%s is a directory", file)
	case errno == syscall.ENOEXEC:
		return config("%s is not a program of this machine and has no #! line", file)
	case errno == syscall.ENOENT:
		if in := interpreter(file); in != "" {
			return config("the interpreter %s that %s asks for in its first line does not exist", in, file)
		}
		return config("%s exists, but the loader or library that it asks for does not", file)
	case info.Mode()&0o111 == 0:
		return config("%s is not executable; make it so with chmod +x", file)
	case errno == syscall.EACCES, errno == syscall.EPERM:
		return config("%s may not be executed or directory %s not be entered by this user: %s", file, t.Dir, errno)
	}
	return fmt.Errorf("start %q: %w", name, err)
}

func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func size(list []string) (n int) {
	for _, s := range list {
		n += len(s) + 1
	}
	return n
}

// interpreter returns what a script's first line asks for.
func interpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was only read
	line, err := bufio.NewReaderSize(f, 512).ReadSlice('\n')
	if err != nil && len(line) < 2 {
		return ""
	}
	rest, ok := strings.CutPrefix(string(line), "#!")
	if fields := strings.Fields(rest); ok && len(fields) > 0 {
		return fields[0]
	}
	return ""
}
