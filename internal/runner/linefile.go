package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// lineFile follows a file to which a plugin of ours appends one line an event while its runner works.
type lineFile struct {
	file *os.File
	rest []byte        // the beginning of a line that is not complete yet
	turn chan struct{} // held while the file is read: output comes from two goroutines
	take func(line []byte)
}

func newLineFile(dir, pattern string, take func(line []byte)) (*lineFile, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, fmt.Errorf("create the file of events: %w", err)
	}
	return &lineFile{file: f, turn: make(chan struct{}, 1), take: take}, nil
}

func (l *lineFile) name() string { return l.file.Name() }

// poll hands on the lines that came since the last time. If another goroutine is at it, poll leaves it to that one.
func (l *lineFile) poll() {
	select {
	case l.turn <- struct{}{}:
		l.read()
		<-l.turn
	default:
	}
}

// close hands on what is left, and removes the file. Nobody may poll any more.
func (l *lineFile) close() error {
	l.read()
	return errors.Join(l.file.Close(), os.Remove(l.file.Name()))
}

func (l *lineFile) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.file.Read(buf)
		data := buf[:n]
		for {
			line, after, whole := bytes.Cut(data, []byte{'\n'})
			if !whole {
				l.rest = append(l.rest, line...)
				break
			}
			if len(l.rest) > 0 {
				line = append(l.rest, line...)
				l.rest = nil
			}
			l.take(line)
			data = after
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// tickWriter passes one output stream on without the ticks that a plugin prints after each event, keeps its end, and has
// the events read whenever something comes.
type tickWriter struct {
	tail
	events *lineFile
}

func (w *tickWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.events.poll()
	if bytes.IndexByte(p, tick) >= 0 {
		p = bytes.ReplaceAll(p, []byte{tick}, nil)
	}
	if len(p) > 0 {
		if _, err := w.tail.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

var _ io.Writer = (*tickWriter)(nil)
