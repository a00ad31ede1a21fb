# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the system refused a file: what an errno says, and what a look at the path shows."""

from __future__ import annotations

import errno
import os
import pwd
import resource
import stat
from collections.abc import Callable
from pathlib import Path

from ragseal.runtime.edges.cause import Cause
from ragseal.runtime.edges.mounts import NETWORKS, mount_of, room, standing
from ragseal.runtime.edges.private import here

PLENTY = 16 << 20  #: bytes: with so many free, a full disk is not what is seen now

Look = Callable[[Path], Cause]


def why(error: OSError, path: Path | str | None = None) -> str:
    """What a failed call on a file says in an error: the system's words, what was looked at, and a way out.

    Args:
        path: of the file, where the error may not name it itself, as after a write.
    """
    return str(cause_of(error, path))


def cause_of(error: OSError, path: Path | str | None = None) -> Cause:
    """As :func:`why`, taken apart."""
    head = error.strerror or str(error) or type(error).__name__
    named = path if path is not None else error.filename
    look = _LOOKS.get(error.errno or 0)
    if look is None or not isinstance(named, str | os.PathLike):
        of_all = _OF_ALL.get(error.errno or 0)
        return Cause(head) if of_all is None else _joined(head, of_all())
    try:
        found = look(Path(named))
    except (OSError, ValueError) as trouble:
        return Cause(head + here(f" ({named} itself could not be looked at: {trouble})"))
    return _joined(head, found)


def _joined(head: str, found: Cause) -> Cause:
    """In brackets, so that what an error says after it still reads as its own."""
    return Cause(head + here(f" ({found})") if found.said else head)


# --- one errno each --------------------------------------------------------------------------------------------------


def _full(path: Path) -> Cause:
    left = room(path)
    if left.free_files == 0:
        return Cause(f"no further file fits: {left}", "remove files there")
    if left.free < PLENTY:
        return Cause(str(left), "make room there")
    return Cause(f"now {left}", "somebody made room meanwhile, or a quota counts: try again, then ask for the quota")


def _quota(path: Path) -> Cause:
    return Cause(
        f"the quota of user {user(os.geteuid())} on {_mount(path)} is used up", "remove files, or have it raised"
    )


def _read_only(path: Path) -> Cause:
    mount = mount_of(path)
    if mount is not None and mount.read_only:
        return Cause(f"{mount} is mounted read-only", "mount it read-write, or use another folder")
    return Cause(f"{_mount(path)} refuses writes and is not mounted read-only", "see the system's log for its errors")


def _denied(path: Path) -> Cause:
    """The first folder on the way that this user may not enter, else the file itself."""
    me = f"this program runs as {user(os.geteuid())}"
    way = "run it as the owner, or change owner or mode"
    for folder in reversed(Path(os.path.abspath(path)).parents):
        if not os.access(folder, os.X_OK, effective_ids=True):
            return Cause(f"{owned(folder)}, and {me}", way)
    where = standing(path)
    return Cause(f"{owned(where)}, and {me}", way)


def _forbidden(path: Path) -> Cause:
    where = standing(path)
    if os.access(where, os.W_OK, effective_ids=True):
        said = f"{owned(where)}, which would allow it: {_mount(where)} or an attribute of the file forbids it"
        return Cause(said, "see `lsattr`, and what a container or a security module allows")
    return _denied(path)


def _missing(path: Path) -> Cause:
    if os.path.lexists(path):
        return Cause(f"{path} is a link to {os.readlink(path)}, which is not there" if path.is_symlink() else "")
    above = standing(path)
    if above == Path(os.path.abspath(path)).parent:
        return Cause("")
    return Cause(f"of its path only {above} is there")


def _no_folder(path: Path) -> Cause:
    for above in reversed((path, *path.parents)):
        if os.path.lexists(above) and not above.is_dir():
            return Cause(f"{above} is {_kind(above)}")
    if path.is_symlink():
        return Cause(f"{path} is a link, and links are not followed here")
    return Cause(f"{standing(path)} is a folder now", "try again")


def _folder(path: Path) -> Cause:
    return Cause("", "") if path.is_dir() else Cause(f"{path} is {_kind(path)} now", "try again")


def _loop(path: Path) -> Cause:
    for above in reversed((path, *path.parents)):
        if above.is_symlink():
            try:
                os.stat(above)
            except OSError:
                return Cause(f"the link {above} leads to {os.readlink(above)} and never to a file", "remove that link")
    return Cause(f"{path} is a link, and links are not followed here" if path.is_symlink() else "")


def _long_name(path: Path) -> Cause:
    most = os.pathconf(standing(path), "PC_NAME_MAX")
    longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    if longest > most:
        return Cause(f"a name in it has {longest} bytes, and {_mount(path)} takes {most}", "choose a shorter one")
    return Cause(f"the whole path has {len(os.fsencode(path))} bytes", "use a folder nearer to the root")


def _two_file_systems(path: Path) -> Cause:
    return Cause(f"it cannot be moved or linked in one step from or to {_mount(path)}", "keep both on one file system")


def _stale(path: Path) -> Cause:
    return Cause(f"{_mount(path)} no longer knows the file", "mount it anew; a local disk is safer")


def _too_large(path: Path) -> Cause:
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft != resource.RLIM_INFINITY:
        return Cause(f"this program may write files of {soft} bytes", "raise its limit (`ulimit -f`)")
    return Cause(f"{_mount(path)} takes no larger file", "use another file system")


def _io(path: Path) -> Cause:
    return Cause(f"{_mount(path)} could not read or write its device", "see the system's log, and check the disk")


def _no_locks(path: Path) -> Cause:
    mount = mount_of(path)
    where = str(mount) if mount is not None else f"the file system of {path}"
    over = " over the network" if mount is not None and mount.kind in NETWORKS else ""
    return Cause(f"{where} offers no locks{over}", "keep this folder on a local disk, or mount that one with locks")


def _unsupported(path: Path) -> Cause:
    return Cause(f"{_mount(path)} cannot do this", "use a local file system, such as ext4")


def _busy(path: Path) -> Cause:
    if path.is_mount():
        return Cause(f"{path} is where a file system is mounted", "name a folder in it")
    holders = ", ".join(map(str, processes_with(path)))
    said = f"{path} is open in process {holders}" if holders else f"no process could be seen that has {path} open"
    return Cause(said, "end what uses it, or try again")


def _this_program() -> Cause:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        held = f" and holds {len(os.listdir('/proc/self/fd'))}"
    except OSError:  # to list them takes one
        held = ""
    return Cause(f"this program may open {soft} files and connections{held}", "raise its limit (`ulimit -n`)")


def _whole_system() -> Cause:
    try:
        used, _, most = Path("/proc/sys/fs/file-nr").read_text("ascii").split()
    except (OSError, ValueError):
        return Cause("the whole system's table of open files is full", "raise fs.file-max, or end other programs")
    return Cause(f"the whole system holds {used} open files of {most}", "raise fs.file-max, or end other programs")


_LOOKS: dict[int, Look] = {
    errno.ENOSPC: _full,
    errno.EDQUOT: _quota,
    errno.EROFS: _read_only,
    errno.EACCES: _denied,
    errno.EPERM: _forbidden,
    errno.ENOENT: _missing,
    errno.ENOTDIR: _no_folder,
    errno.EISDIR: _folder,
    errno.ELOOP: _loop,
    errno.ENAMETOOLONG: _long_name,
    errno.EXDEV: _two_file_systems,
    errno.ESTALE: _stale,
    errno.EFBIG: _too_large,
    errno.EIO: _io,
    errno.ENOLCK: _no_locks,
    errno.EOPNOTSUPP: _unsupported,
    errno.ENOTSUP: _unsupported,
    errno.ENOSYS: _unsupported,
    errno.EBUSY: _busy,
}
_OF_ALL: dict[int, Callable[[], Cause]] = {errno.EMFILE: _this_program, errno.ENFILE: _whole_system}


# --- words -----------------------------------------------------------------------------------------------------------


def _mount(path: Path) -> str:
    return str(mount_of(path) or f"the file system of {path}")


def user(number: int) -> str:
    """A user, by name and number."""
    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)


def owned(path: Path) -> str:
    """Owner and mode of a file.  Raises OSError."""
    seen = path.lstat()
    return f"{path} is of {user(seen.st_uid)} with mode {stat.S_IMODE(seen.st_mode):04o}"


def processes_with(path: Path) -> list[int]:
    """Other processes of this machine that have a file open, as far as this user may see them."""
    found = []
    try:
        wanted = os.stat(path)
    except OSError:
        return []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            held = [os.stat(one) for one in (process / "fd").iterdir()]
        except OSError:  # another user's, or it ended meanwhile
            continue
        if any((one.st_dev, one.st_ino) == (wanted.st_dev, wanted.st_ino) for one in held):
            found.append(int(process.name))
    return sorted(found)


def _kind(path: Path) -> str:
    mode = path.lstat().st_mode
    kinds = (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISREG, "a file"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device or a pipe")
