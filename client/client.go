// Package client is the Go client of Towpath's HTTP API: builds, their atoms, cases, logs and events, and what can be
// asked of them. It reaches a server, or the process that owns a local build, through the transport that it is given.
// It never retries a request that may have had an effect.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/towpath/towpath"
)

// answerLimit is how long a request that is answered at once may take. Streams have no limit but their context's.
const answerLimit = 30 * time.Second

// maxLine bounds one line of a stream; the longest is the list of a build's atoms.
const maxLine = 256 << 20

// Client speaks to one server. It may be used from many goroutines.
type Client struct {
	base string
	http *http.Client
}

// New makes a client of the server at base, as http://host:port, that sends its requests through transport.
func New(base string, transport http.RoundTripper) *Client {
	return &Client{base: base, http: &http.Client{Transport: transport}}
}

// Unix makes a client of the process that listens on a Unix socket.
func Unix(socket string) *Client {
	return New("http://towpath", &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
		},
		ResponseHeaderTimeout: answerLimit,
		IdleConnTimeout:       answerLimit, // whoever asks once leaves no connection behind
	})
}

// Submission asks for a build.
type Submission struct {
	Project string              `json:"project" doc:"names the project; durations and histories are kept by project and job"`
	Job     towpath.Job         `json:"job"`
	Only    []towpath.Selection `json:"only,omitempty" doc:"exactly these atoms, without listing"`
	By      string              `json:"by,omitempty"`
}

// Submit starts a build and returns its number.
func (c *Client) Submit(ctx context.Context, s Submission) (towpath.BuildNumber, error) {
	var out struct {
		Build towpath.BuildNumber `json:"build"`
	}
	err := c.call(ctx, http.MethodPost, "/v1/builds", s, &out)
	return out.Build, err
}

// Cancel asks for the end of a build. Cancelling one that has ended is a conflict.
func (c *Client) Cancel(ctx context.Context, n towpath.BuildNumber, by string) error {
	return c.call(ctx, http.MethodPost, buildPath(n, "/cancel"), map[string]string{"by": by}, nil)
}

// Health returns "" if the server can go on, else one line that says what it waits for, as "disk full".
func (c *Client) Health(ctx context.Context) (string, error) {
	var out struct {
		Waiting string `json:"waiting"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/health", nil, &out)
	return out.Waiting, err
}

// Builds lists builds, newest first.
func (c *Client) Builds(ctx context.Context, f towpath.BuildFilter) ([]towpath.BuildInfo, error) {
	q := url.Values{}
	set := func(key, value string) {
		if value != "" && value != "0" {
			q.Set(key, value)
		}
	}
	set("project", f.Project)
	set("job", f.Job)
	set("state", string(f.State))
	set("before", strconv.FormatInt(int64(f.Before), 10))
	set("limit", strconv.Itoa(f.Limit))
	if f.Unfinished {
		q.Set("unfinished", "true")
	}
	var out struct {
		Builds []towpath.BuildInfo `json:"builds"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/builds?"+q.Encode(), nil, &out)
	return out.Builds, err
}

// Build returns one build.
func (c *Client) Build(ctx context.Context, n towpath.BuildNumber) (towpath.BuildInfo, error) {
	var out towpath.BuildInfo
	err := c.call(ctx, http.MethodGet, buildPath(n, ""), nil, &out)
	return out, err
}

// Job returns the job that a build runs.
func (c *Client) Job(ctx context.Context, n towpath.BuildNumber) (towpath.Job, error) {
	var out towpath.Job
	err := c.call(ctx, http.MethodGet, buildPath(n, "/job"), nil, &out)
	return out, err
}

// Atoms yields the atoms of a build in order.
func (c *Client) Atoms(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AtomInfo, error] {
	return stream[towpath.AtomInfo](ctx, c, buildPath(n, "/atoms"))
}

// Attempts yields the attempts of a build in order.
func (c *Client) Attempts(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.AttemptInfo, error] {
	return stream[towpath.AttemptInfo](ctx, c, buildPath(n, "/attempts"))
}

// Cases yields the cases of a build, atom by atom, as they finally stand.
func (c *Client) Cases(ctx context.Context, n towpath.BuildNumber) iter.Seq2[towpath.CaseInfo, error] {
	return stream[towpath.CaseInfo](ctx, c, buildPath(n, "/cases"))
}

// AtomCases yields the cases of one atom.
func (c *Client) AtomCases(ctx context.Context, n towpath.BuildNumber, atom int) iter.Seq2[towpath.CaseInfo, error] {
	return stream[towpath.CaseInfo](ctx, c, buildPath(n, "/cases?atom="+strconv.Itoa(atom)))
}

// History yields the latest results of a case of an atom, newest first.
func (c *Client) History(ctx context.Context, n towpath.BuildNumber, atom, name string) iter.Seq2[towpath.PastCase, error] {
	return stream[towpath.PastCase](ctx, c, buildPath(n, "/history?"+url.Values{"atom": {atom}, "case": {name}}.Encode()))
}

// Events yields the events of a build after the one numbered from, and if it goes on, those to come, until its last.
func (c *Client) Events(ctx context.Context, n towpath.BuildNumber, from int64) iter.Seq2[towpath.NumberedEvent, error] {
	return stream[towpath.NumberedEvent](ctx, c, buildPath(n, "/events?from="+strconv.FormatInt(from, 10)))
}

// Log yields the logs that q chooses; with follow also what is still to come, until the build has ended.
func (c *Client) Log(ctx context.Context, n towpath.BuildNumber, q towpath.LogQuery, follow bool) iter.Seq2[towpath.LogPiece, error] {
	v := url.Values{}
	if q.Atom != "" {
		v.Set("atom", q.Atom)
	}
	if q.Attempt != 0 {
		v.Set("attempt", strconv.Itoa(q.Attempt))
	}
	if q.Offset != 0 {
		v.Set("offset", strconv.FormatInt(q.Offset, 10))
	}
	if follow {
		v.Set("follow", "true")
	}
	return stream[towpath.LogPiece](ctx, c, buildPath(n, "/log?"+v.Encode()))
}

func buildPath(n towpath.BuildNumber, rest string) string {
	return "/v1/builds/" + strconv.FormatInt(int64(n), 10) + rest
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(data)
	}
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // the answer was read, or its error is returned
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request %s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &towpath.Error{Code: towpath.CodeUnavailable, Message: "the server did not answer: " + err.Error(), Err: err}
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close() //nolint:errcheck // the error that it carries is returned
		return nil, problem(resp)
	}
	return resp, nil
}

// problem reads an error answer (RFC 9457, with our code beside its status).
func problem(resp *http.Response) error {
	var p struct {
		Code   towpath.Code `json:"code"`
		Detail string       `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(data, &p) != nil || p.Detail == "" {
		return towpath.Errorf(towpath.CodeInternal, "the server answered %s", resp.Status)
	}
	if p.Code == "" {
		p.Code = towpath.CodeUsage
	}
	for _, e := range p.Errors {
		p.Detail += "; " + e.Location + ": " + e.Message
	}
	return &towpath.Error{Code: p.Code, Message: p.Detail}
}

// stream yields the lines of an answer as they come. A line that is an error object ends it with that error.
func stream[T any](ctx context.Context, c *Client, path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.send(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(zero, err)
			return
		}
		defer resp.Body.Close() //nolint:errcheck // it was only read
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(make([]byte, 64<<10), maxLine)
		for lines.Scan() {
			var line struct {
				Item  *T `json:"item"`
				Error *struct {
					Code    towpath.Code `json:"code"`
					Message string       `json:"message"`
				} `json:"error"`
				End bool `json:"end"`
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				yield(zero, fmt.Errorf("read stream %s: %w", path, err))
				return
			}
			switch {
			case line.Error != nil:
				yield(zero, &towpath.Error{Code: line.Error.Code, Message: line.Error.Message})
				return
			case line.End:
				return
			case line.Item != nil && !yield(*line.Item, nil):
				return
			}
		}
		err = lines.Err()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(zero, &towpath.Error{Code: towpath.CodeUnavailable, Message: "the connection to the server broke: " + err.Error(), Err: err})
	}
}
