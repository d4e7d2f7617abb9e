//go:build linux

package main

import (
	"fmt"
	"strings"
)

// helpText returns the output of --help.
func helpText() string {
	var o options
	fs, _ := optionFlags(&o)
	var flags strings.Builder
	fs.SetOutput(&flags)
	fs.PrintDefaults()
	return fmt.Sprintf(`Compares Spindle with its peers, side by side on this machine.

  go run . [flags] [benchmarks...]

%s
How to read it: every figure is a median over rounds; "A ÷ it" is the median of
A's figure divided by that server's figure of the same round. Trust ratios, not
figures: they move together when the machine is busy. A row marked * had a
server that was idle for a good part of the time, so its requests per second
are the load generator's limit; requests per CPU-second still compare.

Examples:
  go run .                                      all of it, about half an hour
  go run . echo pipeline                        two benchmarks
  go run . --servers spindle-protocol,gnet echo
                                                two servers
  go run . kinds                                memory of idle connections of every kind
  go run . http2 grpc attacks many              these need h2load, or the whole machine
  go run . --python env/bin/python python-servers python-loops
  go run . --before DIR --servers spindle-lean,spindle-lean-before http
  go run . --rounds 21 --window 3s echo         more precise figures
  go run . --smoke                              check that everything works
  go run . chart ../docs/figures.md HTTP        draw a recorded table as SVG

Flags:
%s`, listText(), flags.String())
}

// listText returns the list of benchmarks and servers.
func listText() string {
	var b strings.Builder
	b.WriteString("Benchmarks:\n")
	for _, byName := range []bool{false, true} {
		if byName {
			b.WriteString("Benchmarks that run only if they or their group are named:\n")
		}
		for _, m := range benchmarks {
			if m.byName != byName {
				continue
			}
			about := m.about
			if m.group != "" {
				about += " (" + m.group + ")"
			}
			fmt.Fprintf(&b, "  %-22s %s\n", m.name, about)
		}
	}
	fmt.Fprintf(&b, "Servers (those not installed are left out):\n  %s\n", strings.Join(variantNames(), " "))
	return b.String()
}
