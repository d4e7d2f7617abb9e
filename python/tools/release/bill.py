"""The bill of materials: what is in the files of a release."""

import hashlib
import json
import os
import subprocess
import uuid
import zipfile
from datetime import datetime, timezone
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from building import commit_time
from versions import MODULE

PATH = "github.com/spindleloop/spindle"
# What the command and libspindle.so are built from, with their build tags.
ROOTS = {"./cmd/spindle": "", "./python/libspindle": "spindle_python"}


def modules() -> dict[str, str]:
    """Return the modules that are linked into the command or into libspindle.so, with their versions."""
    found = {}
    for package, tags in ROOTS.items():
        listed = subprocess.run(
            ["go", "list", "-deps", "-tags", tags, "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", package],
            cwd=MODULE, check=True, capture_output=True, text=True, env={**os.environ, "CGO_ENABLED": "1"})
        found.update(line.split(" ") for line in listed.stdout.splitlines() if line)
    shown = subprocess.run(["go", "env", "GOVERSION"], cwd=MODULE, check=True, capture_output=True, text=True)
    return {"std": shown.stdout.strip().removeprefix("go"), **dict(sorted(found.items()))}


def sha256(data: bytes) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())]


def library(name: str, version: str, url: PackageURL, **more) -> Component:
    return Component(type=ComponentType.LIBRARY, name=name, version=version, purl=url, bom_ref=str(url), **more)


def wheel_component(path: Path) -> Component:
    """Describe a wheel with the files in it."""
    with zipfile.ZipFile(path) as archive:
        inside = [Component(type=ComponentType.FILE, name=name, bom_ref=f"{path.name}/{name}", hashes=sha256(archive.read(name)))
                  for name in archive.namelist()]
    return file_component(path, components=inside)


def file_component(path: Path, **more) -> Component:
    return Component(type=ComponentType.FILE, name=path.name, bom_ref=path.name, hashes=sha256(path.read_bytes()), **more)


def bill(version: str, files: list[Path]) -> str:
    """Return the bill of materials as CycloneDX JSON."""
    bom = Bom()
    # So that two builds have the same bytes.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"https://{PATH}@{version}")
    bom.metadata.timestamp = datetime.fromtimestamp(commit_time(), timezone.utc)
    url = PackageURL("golang", "github.com/spindleloop", "spindle", f"v{version}")
    apache = [LicenseExpression("Apache-2.0")]
    bom.metadata.component = Component(type=ComponentType.APPLICATION, name="spindle", version=version, purl=url, bom_ref=str(url),
                                       licenses=apache)
    package = library("spindle-loop", version, PackageURL("pypi", None, "spindle-loop", version), licenses=apache)
    needed = []
    for path, number in modules().items():
        space, _, name = path.rpartition("/")
        needed.append(library(path, number, PackageURL("golang", space or None, name, number)))
    for component in [package, *needed]:
        bom.components.add(component)
    for file in files:
        bom.components.add(wheel_component(file) if file.suffix == ".whl" else file_component(file))
    bom.register_dependency(bom.metadata.component, needed)
    bom.register_dependency(package, needed)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the bill of materials is not CycloneDX: {problem}")
    return text + "\n"


def names(text: str) -> list[str]:
    return [component["name"] for component in json.loads(text)["components"]]
