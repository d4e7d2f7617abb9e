// Package retention tests that an operation that has ended keeps nothing in memory: neither
// its function, nor its context, nor its data.
package retention
