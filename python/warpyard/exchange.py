"""Directories through which submitter and task exchange pickles. Loading a pickle runs code, so nobody else may put one there."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from .connection import WarpyardError


def make_directory(workdir: Path, kind: str) -> Path:
    """A new directory below `.warpyard/KIND` in a working directory that others may write to, such as `/tmp`."""
    directory = workdir / ".warpyard"
    for place in (directory, directory / kind):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or not _is_ours(found):
            raise WarpyardError(
                f"{place} belongs to another user, or can be written to by one, who could have this process run code; "
                "remove it, or choose another directory with workdir="
            )
    directory = directory / kind / secrets.token_hex(8)
    directory.mkdir(mode=0o700)
    return directory


def create_own(path: Path) -> BinaryIO:
    """Creates a file that others may read, as far as the umask allows, and never write to."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o644))


def open_own(path: Path) -> BinaryIO:
    """Opens a file that this user, or root, has written, in a directory where nobody else could have put another."""
    if not _is_ours(path.parent.lstat()):
        raise WarpyardError(f"{path.parent} belongs to another user, or can be written to by one; nothing in it is loaded")
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))
    if not _is_ours(os.fstat(file.fileno())):
        file.close()
        raise WarpyardError(f"{path} belongs to another user, or can be written to by one; it is not loaded")
    return file


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody but this user and root can have written it; its group may, where that is the user's own."""
    others = 0o002 if found.st_gid == os.getegid() == os.geteuid() else 0o022
    return found.st_uid in (0, os.geteuid()) and not stat.S_IMODE(found.st_mode) & others
