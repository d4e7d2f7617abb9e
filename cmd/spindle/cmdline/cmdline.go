// Package cmdline parses the flags of commands. An error is one line, which says what to do.
package cmdline

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// Parse parses the flags of a command of program. For --help it prints help and the flags,
// and returns flag.ErrHelp.
func Parse(program string, flags *flag.FlagSet, help string, args []string, out io.Writer) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, strings.TrimSpace(help))
		heading := "\nFlags:\n"
		flags.VisitAll(func(f *flag.Flag) {
			fmt.Fprint(out, heading)
			heading = ""
			name, usage := flag.UnquoteUsage(f)
			shown := fmt.Sprintf("--%s %s", f.Name, name)
			if f.DefValue != "" && f.DefValue != "false" {
				usage += fmt.Sprintf(" (default %s)", f.DefValue)
			}
			fmt.Fprintf(out, "  %-19s  %s\n", strings.TrimSpace(shown), usage)
		})
		return err
	}
	problem := ""
	if err != nil {
		problem = describe(flags, err)
	} else if late := misplaced(flags); late != "" {
		problem = fmt.Sprintf("flag --%s must come before %q", late, flags.Arg(0))
	}
	if problem != "" {
		return fmt.Errorf("%s; see '%s %s --help'", problem, program, flags.Name())
	}
	return nil
}

// misplaced returns the name of a flag that stands behind an argument, where package flag does not
// look for flags, or "".
func misplaced(flags *flag.FlagSet) string {
	for _, arg := range flags.Args() {
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if flags.Lookup(name) != nil {
			return name
		}
	}
	return ""
}

// flagError matches an error of package flag: what happened, the flag's name, the reason.
var flagError = regexp.MustCompile(`(?s)^(.* )-+([^ :]+)(: .*)?$`)

// describe rewrites an error of package flag: with two dashes, as in the help, with the flag
// that was meant, and with the wanted value instead of "parse error".
func describe(flags *flag.FlagSet, err error) string {
	part := flagError.FindStringSubmatch(err.Error())
	if part == nil || part[1] == "bad flag syntax: " {
		return err.Error()
	}
	what, name, why := part[1], part[2], part[3]
	f := flags.Lookup(name)
	if f == nil {
		if meant := nearest(flags, name); meant != "" {
			return fmt.Sprintf("no flag --%s (did you mean --%s?)", name, meant)
		}
		return "no flag --" + name
	}
	if g, ok := f.Value.(flag.Getter); ok && why == ": parse error" {
		why = ": want " + wanted(g.Get())
	}
	return what + "--" + name + why
}

// wanted describes the values of a flag with the type of value.
func wanted(value any) string {
	switch value.(type) {
	case time.Duration:
		return "a time such as 500ms"
	case bool:
		return "true or false"
	case uint64:
		return "a number from 0"
	}
	return "a number"
}

// nearest returns the name of a flag that differs from name in the fewest characters, or "" if
// none is similar.
func nearest(flags *flag.FlagSet, name string) (found string) {
	fewest := min(2, len(name)/2) + 1
	flags.VisitAll(func(f *flag.Flag) {
		if d := distance(f.Name, name); d < fewest {
			found, fewest = f.Name, d
		}
	})
	return found
}

// distance returns how many characters to insert, remove or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the empty prefix of a
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
