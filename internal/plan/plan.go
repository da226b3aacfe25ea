// Package plan turns what people write into checked jobs: towpath.yaml, a command after --, or the files that a project
// already has. The command line calls it to run and to init, a server to check what it is sent. It is pure but for reading
// files from the fs.FS it is handed: it starts no process, reads no clock and no environment, and never guesses at a key
// it does not know. All faults of a file are reported at once, each with file, line and column.
package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/towpath/towpath"
)

// FileName is the name of the file that describes a repository's jobs.
const FileName = "towpath.yaml"

// MaxFileSize is the size in bytes up to which Load and Parse accept a file.
const MaxFileSize = 1 << 20

// File is a checked towpath.yaml. Its jobs have every default filled in. It is to be read only.
type File struct {
	Name  string // as people should see it in messages
	Jobs  map[string]towpath.Job
	Order []string // the jobs' names in the order of the file
}

// Job returns the job of that name. Without a name it is the only job, or the one called test.
func (f *File) Job(name string) (towpath.Job, error) {
	if name == "" && len(f.Order) == 1 {
		name = f.Order[0]
	}
	if name == "" {
		if j, ok := f.Jobs["test"]; ok {
			return j, nil
		}
		return towpath.Job{}, towpath.Errorf(towpath.CodeUsage,
			"%s has several jobs and none is called test: name one of %s", f.Name, strings.Join(f.Order, ", "))
	}
	if j, ok := f.Jobs[name]; ok {
		return j, nil
	}
	if near := nearest(name, f.Order); near != "" {
		return towpath.Job{}, towpath.Errorf(towpath.CodeNotFound,
			"%s has no job %q: did you mean %q?", f.Name, name, near)
	}
	return towpath.Job{}, towpath.Errorf(towpath.CodeNotFound,
		"%s has no job %q: it has %s", f.Name, name, strings.Join(f.Order, ", "))
}

// Load reads and checks the file called name in workspace. If there is none the error's cause is fs.ErrNotExist.
func Load(workspace fs.FS, name string) (*File, error) {
	return LoadFrom(workspace, workspace, name, name)
}

// LoadFrom is Load for a file that may stand outside of the workspace: it is called base in folder, and name in messages.
// What the file says is of the workspace all the same.
func LoadFrom(workspace, folder fs.FS, base, name string) (*File, error) {
	data, err := read(folder, base, name)
	if err != nil {
		return nil, err
	}
	f, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	resolvePackages(workspace, f)
	return f, nil
}

func read(fsys fs.FS, base, name string) ([]byte, error) {
	clean := path.Clean(base)
	if !fs.ValidPath(clean) {
		return nil, &towpath.Error{
			Code:    towpath.CodeConfig,
			Message: name + " cannot be read: name a file of this directory or below it",
		}
	}
	info, err := fs.Stat(fsys, clean) // before it is opened: a pipe without a writer would hold us up for ever
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing(fsys, clean, path.Clean(name))
	case err != nil:
		return nil, explainRead(name, err)
	case info.IsDir():
		return nil, towpath.Errorf(towpath.CodeConfig, "%s is a directory: it must be a file", name)
	case !info.Mode().IsRegular():
		return nil, towpath.Errorf(towpath.CodeConfig, "%s is not a regular file", name)
	}
	f, err := fsys.Open(clean)
	if err != nil {
		return nil, explainRead(name, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading: nothing can be lost
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

func explainRead(name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &towpath.Error{
			Code: towpath.CodeConfig, Err: err,
			Message: name + " cannot be read: permission denied; make it readable for this user",
		}
	}
	return unreadable(name, err)
}

// missing says that there is no such file, and names the one that was probably meant to be it.
func missing(fsys fs.FS, file, name string) error {
	message := "there is no " + name + ": write one with towpath init"
	if stem, ok := strings.CutSuffix(file, ".yaml"); ok {
		if _, err := fs.Stat(fsys, stem+".yml"); err == nil {
			message = fmt.Sprintf("there is no %s, only %s: rename it", name, path.Base(stem+".yml"))
		}
	}
	return &towpath.Error{Code: towpath.CodeConfig, Message: message, Err: fs.ErrNotExist}
}

func unreadable(name string, err error) error {
	cause := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		cause = p.Err
	}
	return &towpath.Error{Code: towpath.CodeConfig, Message: fmt.Sprintf("%s cannot be read: %v", name, cause), Err: err}
}
