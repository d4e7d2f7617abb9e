// Package version has the version of the module. The Python package has the same one.
package version

// Number is the version of the last release, or of the next one if none has been made.
// python/tools/release sets it.
const Number = "0.1.0"
