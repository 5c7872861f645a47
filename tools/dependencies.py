"""Check the pinned versions and the lower bounds of our dependencies.

    python tools/dependencies.py audit      known vulnerabilities of the versions in constraints.txt
    python tools/dependencies.py lowest     the lowest versions that pyproject.toml allows, for pip

`audit` asks osv.dev, the database of known vulnerabilities, and exits with 1 if one is known. A
build without network continues, but says that nothing was audited: silence is not a clean bill of
health.
"""

import argparse
import json
import re
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SERVICE = "https://api.osv.dev"
SECONDS = 15


def pins(text: str) -> list[tuple[str, str]]:
    """
    >>> pins("# known to work\\nnumpy==2.1.0\\nJinja2==3.1.6\\n")
    [('numpy', '2.1.0'), ('Jinja2', '3.1.6')]
    """
    return re.findall(r"^([\w.-]+)==([\w.+-]+)$", text, re.MULTILINE)


def lowest(requirements: list[str]) -> list[str]:
    """Pin each requirement to its lower bound; requirements without one are unchanged.

    >>> lowest(["numpy>=1.26", "uvloop>=0.19; sys_platform != 'win32'"])
    ['numpy==1.26', "uvloop==0.19; sys_platform != 'win32'"]
    """
    return [requirement.replace(">=", "==", 1) for requirement in requirements]


def advisories(pinned: list[tuple[str, str]], service: str) -> list[list[str]] | None:
    """Return the known vulnerabilities of each version, or None without network."""
    packages = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
        for name, version in pinned
    ]
    question = json.dumps({"queries": packages}).encode()
    request = urllib.request.Request(
        f"{service}/v1/querybatch", question, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            results: list[dict[str, Any]] = json.load(answer)["results"]
            return [[known["id"] for known in result.get("vulns", [])] for result in results]
    except (OSError, ValueError, KeyError, TypeError):  # urllib's errors are OSErrors
        return None


def audit(pinned: list[tuple[str, str]], service: str = SERVICE) -> int:
    """Print what is known against the versions; the exit status."""
    found = advisories(pinned, service)
    if found is None or len(found) != len(pinned):
        print(f"audit: no advisories can be had here: none of {len(pinned)} versions was audited.")
        return 0
    for (name, version), known in zip(pinned, found, strict=True):
        if known:
            print(f"{name} {version}: {', '.join(known)}")
    bad = sum(map(bool, found))
    print(f"audit: {len(pinned)} versions looked up, {bad} with known vulnerabilities.")
    return 1 if bad else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["audit", "lowest"])
    options = parser.parse_args()
    if options.what == "audit":
        sys.exit(audit(pins((ROOT / "constraints.txt").read_text())))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    print("\n".join(lowest([*project["dependencies"], *extras["serve"]])))


if __name__ == "__main__":
    main()
