package tunnel

import (
	"net"
	"net/http"
)

// NewStub makes a tunnel with no agent behind it, for tests of the registry alone.
func NewStub(id string) *Tunnel {
	here, _ := net.Pipe()
	limits := Limits{}.withDefaults()
	return &Tunnel{id: id, link: newLink(here, limits), client: stubClient{}, limits: limits}
}

type stubClient struct{}

func (stubClient) RoundTrip(*http.Request) (*http.Response, error) { return nil, net.ErrClosed }
func (stubClient) Err() error                                      { return nil }
func (stubClient) Close() error                                    { return nil }
