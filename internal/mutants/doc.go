// Package mutants plants bugs in our own layers and has the simulator find them:
//
//	go test -tags mutants -v ./internal/mutants
//
// Each mutant is a change of a line or two. It is compiled in place of the real
// code (go test -overlay), so that nothing of it is in what others build.
package mutants
