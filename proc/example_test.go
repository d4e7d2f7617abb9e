package proc_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
)

func Example() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		cmd := proc.Command("sort")
		cmd.Stdin = strings.NewReader("pear\napple\n")
		out, err := cmd.Output(ctx)
		fmt.Print(string(out))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// apple
	// pear
}

// A conversation with a child, over its pipes.
func ExampleCmd_Start() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		cmd := proc.Command("cat")
		cmd.Stdin, cmd.Stdout = proc.Pipe, proc.Pipe
		p, err := cmd.Start(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		answers := bufio.NewReader(p.Stdout)
		for _, word := range []string{"hello", "again"} {
			fmt.Fprintln(p.Stdin, word)
			answer, err := answers.ReadString('\n')
			if err != nil {
				return err
			}
			fmt.Print(answer)
		}
		p.Stdin.Close()
		return p.Wait(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello
	// again
}

func ExampleSignals() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		sigs, err := proc.Signals(ctx, syscall.SIGHUP, syscall.SIGUSR1)
		if err != nil {
			return err
		}
		defer sigs.Close()
		syscall.Kill(os.Getpid(), syscall.SIGHUP) // a request to reload the configuration
		for sig, err := range sigs.All(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(sig)
			break
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: hangup
}
