// Package contexts tests scopes as contexts: their behaviour beside that of standard
// contexts, and the laws of design 019, by random programs that are compared with a model.
package contexts
