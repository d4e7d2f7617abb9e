"""Builds the extension module, with gcc or clang, and libspindle.so, with Go."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))
COPY = os.path.join(HERE, "go")  # the Go module in a source distribution
MODULE = COPY if os.path.isdir(COPY) else os.path.dirname(HERE)
GO_PACKAGE = "./python/libspindle"
GO_FLAGS = ["-tags", "spindle_python"]
# Go's preemption uses SIGURG, which belongs to the program here.
GO_LINK = "-s -w -X=runtime.godebugDefault=asyncpreemptoff=1"
GO_NEEDED = (1, 26)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("spindle: free-threaded builds of Python are not supported yet; use a build with the GIL")

if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
    sys.exit("spindle: musl cannot load a shared library that is written in Go (it refuses the library's thread-local "
             "storage); use a system with glibc, such as an image of Debian instead of Alpine")


def need(program, remedy):
    if shutil.which(program) is None:
        sys.exit(f"spindle: {program} was not found, and is needed to build the package; {remedy}")


def need_go():
    need("go", "install Go 1.26 or later, from https://go.dev/dl")
    # A go command that fetches a newer one by itself reports that one, in the directory of the module.
    version = subprocess.run(["go", "env", "GOVERSION"], cwd=MODULE, capture_output=True, text=True).stdout.strip()
    number = re.match(r"go(\d+)\.(\d+)", version)
    if number is None or tuple(map(int, number.groups())) < GO_NEEDED:
        sys.exit(f"spindle: the Go command is {version or 'broken'}; install Go 1.26 or later, from https://go.dev/dl")


def need_compiler():
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    need(compiler.split()[0], "install a C compiler (Debian: apt-get install gcc libc6-dev)")
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        sys.exit("spindle: Python.h was not found; install the headers of Python (Debian: apt-get install python3-dev)")


class Build(build):
    """Builds in a directory of its own: two builds in one tree would break each other, and would pack files of older ones."""

    def initialize_options(self):
        super().initialize_options()
        self.build_base = tempfile.mkdtemp(prefix="spindle-build-")
        atexit.register(shutil.rmtree, self.build_base, ignore_errors=True)


class BuildExt(build_ext):
    def run(self):
        need_go()
        need_compiler()
        super().run()
        library = os.path.join(os.path.dirname(self.get_ext_fullpath("spindle._core")), "libspindle.so")
        subprocess.run(
            ["go", "build", *GO_FLAGS, "-buildmode=c-shared", "-trimpath", "-ldflags=" + GO_LINK, "-o",
             os.path.abspath(library), GO_PACKAGE],
            cwd=MODULE, check=True, env={**os.environ, "CGO_ENABLED": "1"})
        header = os.path.splitext(library)[0] + ".h"
        if os.path.exists(header):
            os.remove(header)


class Sdist(sdist):
    """Adds the files of the Go module that libspindle.so is built from, and those of other modules."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        listed = subprocess.run(
            ["go", "list", *GO_FLAGS, "-deps", "-f",
             "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{range .EmbedFiles}}\t{{.}}{{end}}{{end}}{{end}}", GO_PACKAGE],
            cwd=MODULE, check=True, capture_output=True, text=True, env={**os.environ, "CGO_ENABLED": "1"})
        sources = ["go.mod", "go.sum", "LICENSE"]
        for line in filter(None, listed.stdout.splitlines()):
            directory, *embedded = line.split("\t")
            names = [name for name in os.listdir(directory)
                     if name.endswith((".go", ".s", ".h", ".c")) and not name.endswith("_test.go")]
            sources += [os.path.relpath(os.path.join(directory, name), MODULE) for name in names + embedded]
        for source in sources:
            target = os.path.join(base_dir, "go", source)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(MODULE, source), target)
        # So that the build needs no proxy for modules.
        subprocess.run(["go", "mod", "vendor"], cwd=os.path.join(base_dir, "go"), check=True)


core = Extension(
    "spindle._core",
    sources=sorted(os.path.join("src", name) for name in os.listdir(os.path.join(HERE, "src")) if name.endswith(".c")),
    depends=["src/core.h", "src/asgi.h", "src/internals.h", "src/values.h", "libspindle/events.h", "libspindle/mailbox.h",
             "libspindle/world.h", "src/world.h"],
    extra_compile_args=["-O3", "-flto", "-fvisibility=hidden", "-std=gnu11"],
    extra_link_args=["-flto"],
    libraries=["dl", "pthread"],
)

setup(ext_modules=[core], cmdclass={"build": Build, "build_ext": BuildExt, "sdist": Sdist})
