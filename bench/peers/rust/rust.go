// Package rust builds the HTTP servers in Rust that package web is compared with: hyper, axum
// and may_minihttp. They are one program, and `peers NAME HOST PORT` runs one of them.
package rust

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed Cargo.toml Cargo.lock src
var sources embed.FS

// ErrNotInstalled is the error of Build on a machine without cargo.
var ErrNotInstalled = errors.New("no cargo; install Rust from rustup.rs")

// Build builds the program, in the user's cache, and returns its path. The first time it
// fetches crates and takes some minutes.
func Build() (string, error) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		return "", ErrNotInstalled
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "spindle-bench-rust")
	if err := unpack(dir); err != nil {
		return "", err
	}
	build := exec.Command(cargo, "build", "--release", "--locked", "--quiet")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cargo build: %w\n%s", err, out)
	}
	return filepath.Join(dir, "target", "release", "peers"), nil
}

// unpack writes the sources to dir. It leaves files that have not changed as they are, so that
// cargo does not build them again.
func unpack(dir string) error {
	return fs.WalkDir(sources, ".", func(name string, e fs.DirEntry, err error) error {
		path := filepath.Join(dir, name)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(path, 0o755)
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			return nil
		}
		return os.WriteFile(path, text, 0o644)
	})
}
