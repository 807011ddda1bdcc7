"""Files of data sets, from a local folder or downloaded once; verified in both cases."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from companion._checks import needs_extra

with needs_extra("experiments"):
    import pooch
    import requests

#: Seconds without a change after which a temporary file is a killed download's.
_ABANDONED = 600


def fetch(checksums: Mapping[str, str], address: str, folder: str = "") -> Path:
    """A file of a data set, found locally or downloaded once, with a verified checksum.

    If the environment variable COMPANION_DATA names a folder, the first of the names
    that exists in its subfolder ``folder`` is taken. Otherwise the file of the first
    name is downloaded into the user's cache. Temporary files that killed downloads have
    left in the cache are removed.

    Args:
        checksums: the SHA-256 of the file by its name; several names are alternatives.
        address: where the file is downloaded from, up to its name.
        folder: the subfolder of COMPANION_DATA, or of the cache.

    Raises:
        FileNotFoundError: no file of these names is in the local folder.
        ValueError: the checksum of the file is not the expected one.
        ConnectionError: the file could not be downloaded.
    """
    local = os.environ.get("COMPANION_DATA")
    if local:
        return _verified(_find(Path(local) / folder, list(checksums)), checksums)
    name, checksum = next(iter(checksums.items()))
    return _download(address + name, name, checksum, folder)


def _find(folder: Path, names: list[str]) -> Path:
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise FileNotFoundError(
            f"{' or '.join(names)} is not in {folder}: put it there, set COMPANION_DATA to another folder, "
            "or unset it to have the file downloaded"
        )
    return found[0]


def _verified(path: Path, checksums: Mapping[str, str]) -> Path:
    found = pooch.file_hash(str(path), alg="sha256")
    if found != checksums[path.name]:
        raise ValueError(
            f"{path} is damaged or another version: its SHA-256 is {found}, "
            f"but should be {checksums[path.name]}"
        )
    return path


def _download(address: str, name: str, checksum: str, folder: str) -> Path:
    """Fetch a file by pooch, which moves it into its cache when complete and verified."""
    cache = Path(pooch.os_cache("companion")) / folder
    _remove_abandoned(cache)
    try:
        return Path(pooch.retrieve(address, f"sha256:{checksum}", name, cache))
    except requests.RequestException as error:
        raise ConnectionError(
            f"{address} could not be fetched ({error}). Without a network, set COMPANION_DATA to a folder "
            f"of yours, and put the file there, as {Path(folder, name)}"
        ) from error


def _remove_abandoned(cache: Path) -> None:
    """Remove temporary files of pooch's to which no download has written for a while."""
    for path in cache.glob("tmp????????"):
        with suppress(OSError):  # another process has removed it, or holds it open
            if path.is_file() and time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()
