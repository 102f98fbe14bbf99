"""What lies in a home because of its log: with the log gone it would only mislead, so `wakeful reset` removes it."""

from __future__ import annotations

import shutil
from pathlib import Path

OF_A_LOG = {
    "processors": "processors' caches",
    "workers": "workers' marks of calls that were cut",
    "watchers": "watchers' rows",
    "demo": "the demo's runs",
    "blobs": "large payloads",
    "console-links": "which sign-in links were used",
    "console-signed-out": "which sign-ins have ended",
    "console_key": "the console's key, so that everybody is signed out",
    "api_keys.json": "API keys",
    "api_keys.json.lock": "",
    "run.json": "",
    "run.lock": "",
}
"""Folders and files of a home, and what they are to whoever resets it; those without a word go silently."""


def remove(home: Path) -> list[str]:
    """Removes all of it, in whatever state it is; what was there, in words. A repeat finds nothing."""
    found = []
    for name, words in OF_A_LOG.items():
        path = home / name
        if not path.exists():
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        if words:
            found.append(f"{words} ({name})")
    return found
