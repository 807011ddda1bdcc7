"""Files of data sets: from a local folder or downloaded once, and in both cases verified."""

import os
from collections.abc import Mapping
from pathlib import Path

import pooch
import requests


def fetch(checksums: Mapping[str, str], address: str, folder: str = "") -> Path:
    """A file of a data set, which may go by several names, each with the SHA-256 that it then has.

    If the environment variable COMPANION_DATA names a folder, the first of the names that is in its subfolder
    ``folder`` is taken. Otherwise the file of the first name is downloaded from ``address``, which ends where
    the name begins, into the user's cache, once.

    Raises:
        FileNotFoundError: no file of these names is in the local folder.
        ValueError: the checksum of the file that was found or downloaded is not the original's.
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
    """Fetch a file by pooch, which leaves nothing in its cache before all of it is there and verified."""
    try:
        return Path(
            pooch.retrieve(
                address,
                f"sha256:{checksum}",
                name,
                pooch.os_cache("companion") / folder,
            )
        )
    except requests.RequestException as error:
        raise ConnectionError(
            f"{address} could not be fetched ({error}). Without a network, set COMPANION_DATA to a folder "
            f"of yours, and put the file there, as {Path(folder, name)}"
        ) from error
