package sim

import (
	"errors"
	"fmt"

	"github.com/spindleloop/spindle/internal/kernel"
)

// errNoNetwork is the answer to every socket call: a simulated program must not
// reach the real network by accident, nor crash for want of a simulated one.
var errNoNetwork = fmt.Errorf("sim: this world has no network yet: %w", errors.ErrUnsupported)

// noNetwork are the sockets of a host without a network.
type noNetwork struct{}

func (noNetwork) Socket(kernel.Family, kernel.Type) (int, error) { return -1, errNoNetwork }
func (noNetwork) Bind(int, kernel.Addr) error                    { return errNoNetwork }
func (noNetwork) Listen(int, int) error                          { return errNoNetwork }
func (noNetwork) Accept(int) (int, error)                        { return -1, errNoNetwork }
func (noNetwork) Connect(int, kernel.Addr) error                 { return errNoNetwork }
func (noNetwork) Recv(int, []byte) (int, error)                  { return 0, errNoNetwork }
func (noNetwork) Send(int, []byte) (int, error)                  { return 0, errNoNetwork }
func (noNetwork) Sendv(int, [][]byte) (int, error)               { return 0, errNoNetwork }
func (noNetwork) SendTo(int, []byte, kernel.Addr) (int, error)   { return 0, errNoNetwork }
func (noNetwork) Read(int, []byte) (int, error)                  { return 0, errNoNetwork }
func (noNetwork) Write(int, []byte) (int, error)                 { return 0, errNoNetwork }
func (noNetwork) Shutdown(int, kernel.Side) error                { return errNoNetwork }
func (noNetwork) LocalAddr(int) (kernel.Addr, error)             { return kernel.Addr{}, errNoNetwork }
func (noNetwork) PeerAddr(int) (kernel.Addr, error)              { return kernel.Addr{}, errNoNetwork }
func (noNetwork) SetOption(int, kernel.Option, int) error        { return errNoNetwork }
func (noNetwork) Option(int, kernel.Option) (int, error)         { return 0, errNoNetwork }
func (noNetwork) CloseFD(int) error                              { return errNoNetwork }
func (noNetwork) RecvFrom(int, []byte) (int, kernel.Addr, bool, error) {
	return 0, kernel.Addr{}, false, errNoNetwork
}
