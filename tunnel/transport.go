package tunnel

import (
	"errors"
	"fmt"
	"net/http"
)

// Transport is a round tripper to one agent: each request finds a tunnel, waiting for one as long as the request's
// context allows. A request that the agent did not take because it was just leaving goes to its next tunnel, unless its
// body has no GetBody to be sent again. No other failure is retried.
func (r *Registry) Transport(id string) http.RoundTripper {
	return &agentTransport{registry: r, id: id}
}

type agentTransport struct {
	registry *Registry
	id       string
}

// attempts is enough for an agent that leaves several servers in turn, and ends a loop with one that always leaves.
const attempts = 4

func (a *agentTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	for attempt := 1; ; attempt++ {
		t, err := a.registry.Find(ctx, a.id)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := t.RoundTrip(req)
		if err == nil || !errors.Is(err, ErrNotTaken) || attempt == attempts {
			return resp, err
		}
		if req.Body == nil || req.Body == http.NoBody {
			continue
		}
		if req.GetBody == nil {
			return nil, err
		}
		body, again := req.GetBody()
		if again != nil {
			return nil, errors.Join(err, fmt.Errorf("get the body again: %w", again))
		}
		req = req.Clone(ctx)
		req.Body = body
	}
}
