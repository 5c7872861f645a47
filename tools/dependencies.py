"""What the pinned versions and the lower bounds of our dependencies are worth.

    python tools/dependencies.py audit      known vulnerabilities of the versions in constraints.txt
    python tools/dependencies.py lowest     the lowest versions that pyproject.toml allows, for pip

`audit` asks PyPI, which keeps the advisories of each version (those of osv.dev). It ends with 1 where one is known. A
build without network goes on, but says that nothing was audited: silence is not a clean bill of health.
"""

import json
import re
import sys
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PYPI = "https://pypi.org"
SECONDS = 15


def pins(text: str) -> list[tuple[str, str]]:
    """
    >>> pins("# known to work\\nnumpy==2.1.0\\nJinja2==3.1.6\\n")
    [('numpy', '2.1.0'), ('Jinja2', '3.1.6')]
    """
    return re.findall(r"^([\w.-]+)==([\w.+-]+)$", text, re.MULTILINE)


def lowest(requirements: list[str]) -> list[str]:
    """Each lower bound as the only version; what has none stays as it is.

    >>> lowest(["numpy>=1.26", "uvloop>=0.19; sys_platform != 'win32'"])
    ['numpy==1.26', "uvloop==0.19; sys_platform != 'win32'"]
    """
    return [requirement.replace(">=", "==", 1) for requirement in requirements]


def advisories(name: str, version: str, service: str) -> list[dict[str, Any]] | None:
    """What is known against a version, advisories that were withdrawn left out; None: nobody says."""
    try:
        with urllib.request.urlopen(f"{service}/pypi/{name}/{version}/json", timeout=SECONDS) as answer:
            known = json.load(answer)["vulnerabilities"]
    except (OSError, ValueError, KeyError, TypeError):  # urllib's errors are OSErrors
        return None
    return [advisory for advisory in known if not advisory.get("withdrawn")]


def audit(pinned: list[tuple[str, str]], service: str = PYPI) -> int:
    """Print what is known against the versions; the exit status."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pin: advisories(*pin, service), pinned))
    asked = [(pin, known) for pin, known in zip(pinned, found, strict=True) if known is not None]
    for (name, version), known in asked:
        for advisory in known:
            fixed = ", ".join(advisory.get("fixed_in") or []) or "no version yet"
            print(f"{name} {version}: {advisory['id']}, fixed in {fixed}")
    if not asked:
        print(f"audit: no advisories can be had here: none of {len(pinned)} versions was audited.")
        return 0
    if len(asked) < len(pinned):
        missing = len(pinned) - len(asked)
        print(f"audit: {missing} of {len(pinned)} versions could not be looked up; they were NOT audited.")
    bad = sum(bool(known) for _, known in asked)
    print(f"audit: {len(asked)} versions looked up, {bad} with known vulnerabilities.")
    return 1 if bad else 0


def main() -> None:
    if sys.argv[1:] == ["audit"]:
        sys.exit(audit(pins((ROOT / "constraints.txt").read_text())))
    if sys.argv[1:] == ["lowest"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = project["optional-dependencies"]
        print("\n".join(lowest([*project["dependencies"], *extras["serve"]])))
        return
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
