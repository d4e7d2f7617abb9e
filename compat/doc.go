// Package compat holds tests of Spindle with client libraries that were written for
// goroutines: database drivers, Redis, net/http, net/rpc; and of its
// HTTP/2 server with h2spec, gRPC and Connect. It is a module of its own, so
// that Spindle does not depend on them. The guide's table of libraries in tasks says what
// these tests show.
package compat
