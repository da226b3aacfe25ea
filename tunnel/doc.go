// Package tunnel lets a server call programs that it cannot reach.
//
// An agent behind NAT or a firewall dials out, over TLS 1.3 on one port, and asks for an HTTP/1.1 upgrade. From then on
// the roles are swapped: the agent is the HTTP/2 server of that connection, and whoever accepted it is the client. The
// agent serves an ordinary [http.Handler]; the server has an ordinary [http.RoundTripper], and a [net.Conn] for what is
// not HTTP. Streams, cancellation, trailers, flow control and GOAWAY are those of the standard library.
//
// # The agent
//
// [Agent.Run] keeps connections up until its context ends: it dials, serves, backs off with jitter, and gives up only
// where the server said that trying again is of no use. [Dialer] and [Serve] are the two halves of it, for those who
// want the loop to be their own.
//
// # The server
//
// [Handler] authenticates the agent by a function of the caller, upgrades, and hands the [Tunnel] to a [Registry], from
// which any goroutine finds it by the agent's name. [Registry.Find] waits for an agent that is not there yet, for as
// long as its context allows. [Registry.Transport] is the short way: a round tripper that finds the agent for each
// request, and finds it again if it was just leaving.
//
// # What is promised
//
// A peer that is frozen, or cut off without notice, is an error within 15 seconds. A peer that reads nothing holds up
// its own streams, never those of others: a connection's window has room for every stream's. A stream whose other end
// takes nothing for [Limits.StallTimeout] is reset. The registry is owned by one goroutine that waits for nobody; each
// call to it ends with an answer, with its context, or with [ErrClosed].
//
// The package never retries a request that the agent may have begun, reads no environment, keeps no globals, and
// starts no goroutine that it does not wait for, but those of net/http.
package tunnel
