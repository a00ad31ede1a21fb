# SPDX-License-Identifier: GPL-3.0-or-later
"""Each errno of a file: the sentence names what was looked at.

Where the kernel can be made to fail here, it does; the others are handed in, and the look is at the real file system.
"""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges import filesystem
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.mounts import Mount, Room, mount_of, room, size
from ragseal.runtime.edges.private import for_others

ROOT = Path(__file__).parents[3]


def failure(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), *(() if path is None else (str(path),)))


def failing(path: Path, mode: str = "rb") -> str:
    """What is said of a call that the kernel refuses."""
    try:
        path.open(mode).close()
    except OSError as error:
        return why(error)
    raise AssertionError(f"{path} was opened")


# --- the kernel refuses


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert failing(tmp_path / "x") == "No such file or directory"
    assert failing(tmp_path / "a" / "b" / "x").endswith(f"(of its path only {tmp_path} is there)")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert f"is a link to {tmp_path / 'gone'}, which is not there" in failing(tmp_path / "link")


def test_a_file_on_the_way_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert f"{tmp_path / 'file'} is a file" in failing(tmp_path / "file" / "below" / "x")


def test_a_link_where_none_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for flags in (os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY, os.O_RDONLY | os.O_NOFOLLOW):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels") as caught:
            os.open(tmp_path / "link", flags)
        assert f"({tmp_path / 'link'} is a link, and links are not followed here" in why(caught.value)


def test_a_folder_a_loop_and_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert failing(tmp_path, "wb").startswith("Is a directory")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    said = failing(tmp_path / "a" / "x")
    assert "Too many levels" in said
    assert f"the link {tmp_path / 'a'} leads to {tmp_path / 'b'}" in said
    assert "a name in it has 300 bytes" in failing(tmp_path / ("n" * 300))
    assert "takes 255" in failing(tmp_path / ("n" * 300))
    assert "the whole path has" in failing(Path("/" + "/".join(["d" * 200] * 30)))


CHILD = """
import errno, os, resource, sys
from pathlib import Path
from ragseal.runtime.edges.filesystem import why
{code}
"""


def child(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(code=code)], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    """The first folder that may not be entered is named, with its owner, and who asks."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    own = "os.seteuid(65534)" if os.geteuid() == 0 else "pass"
    said = child(f"{own}\ntry: open({str(locked / 'x')!r})\nexcept OSError as e: print(why(e))")
    first = next((one for one in reversed(locked.parents) if not one.stat().st_mode & 0o001), locked)
    assert said.startswith(f"Permission denied ({first} is of ")
    assert "and this program runs as " in said


def test_too_many_files_are_counted(tmp_path: Path) -> None:
    code = """
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(why(error))
"""
    assert (
        child(code)
        == "Too many open files (this program may open 40 files and connections: raise its limit (`ulimit -n`))"
    )


def test_a_file_beyond_this_program_s_limit(tmp_path: Path) -> None:
    code = f"""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    os.write(os.open({str(tmp_path / "f")!r}, os.O_WRONLY | os.O_CREAT), bytes(1000))
    os.write(os.open({str(tmp_path / "f")!r}, os.O_WRONLY | os.O_APPEND), bytes(1000))
except OSError as error:
    print(why(error, {str(tmp_path / "f")!r}))
"""
    assert child(code).startswith("File too large (this program may write files of 1000 bytes")


MOUNTED = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from ragseal.runtime.edges.filesystem import why
os.mkdir("m") if not os.path.exists("m") else None
{code}
"""


def mounted(folder: Path, options: str, code: str) -> str:
    """What code prints in a namespace of its own with a small file system at ./m; skips where none can be had."""
    script = MOUNTED.format(root=str(ROOT), code=code)
    mount = f'mkdir -p m && mount -t tmpfs -o {options} tmpfs m && exec {sys.executable} -c "$0"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, script],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_disk_that_is_full_is_measured(tmp_path: Path) -> None:
    code = "try: Path('m/f').write_bytes(bytes(1 << 21))\nexcept OSError as e: print(why(e, 'm/f'))"
    said = mounted(tmp_path, "size=1m", code)
    assert said.startswith("No space left on device (0 B of 1.0 MiB")
    assert said.endswith("make room there)")
    code = "for i in range(9):\n  try: Path(f'm/f{i}').touch()\n  except OSError as e: print(why(e)); break"
    assert "no further file fits" in mounted(tmp_path, "size=1m,nr_inodes=4", code)


def test_a_file_system_that_is_mounted_read_only(tmp_path: Path) -> None:
    code = "try: Path('m/f').touch()\nexcept OSError as e: print(why(e))"
    said = mounted(tmp_path, "size=1m,ro", code)
    assert said.startswith("Read-only file system (the tmpfs file system at")
    assert "is mounted read-only" in said


def test_two_file_systems(tmp_path: Path) -> None:
    code = "Path('a').touch()\ntry: os.rename('a', 'm/a')\nexcept OSError as e: print(why(e, 'm/a'))"
    said = mounted(tmp_path, "size=1m", code)
    assert "cannot be moved or linked in one step from or to the tmpfs file system" in said


# --- what the kernel cannot be made to say here


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EDQUOT, "the quota of user"),
        (errno.EIO, "could not read or write its device"),
        (errno.ESTALE, "no longer knows the file"),
        (errno.ENOLCK, "offers no locks"),
        (errno.EOPNOTSUPP, "cannot do this"),
        (errno.ENOSYS, "cannot do this"),
        (errno.EBUSY, "no process could be seen that has"),
        (errno.EROFS, "refuses writes and is not mounted read-only"),
        (errno.ENOSPC, "somebody made room meanwhile"),
        (errno.EPERM, "forbids it|this program runs as"),
    ],
)
def test_other_errors_are_explained_by_the_mount(number: int, words: str, tmp_path: Path) -> None:
    said = why(failure(number, tmp_path / "f"))
    mount = mount_of(tmp_path)
    assert mount is not None
    assert any(word in said for word in words.split("|")), said
    assert str(tmp_path) in said or str(mount) in said
    assert said.startswith(os.strerror(number))


def test_the_whole_system_s_files_are_counted() -> None:
    assert "the whole system holds " in why(failure(errno.ENFILE))


def test_an_error_without_a_number_is_not_None() -> None:
    """``strerror`` of such an error is None, and used to be what was said."""
    assert why(OSError("the spare is gone")) == "the spare is gone"
    assert why(TimeoutError()) == "TimeoutError"


def test_a_look_that_fails_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(path: Path) -> Room:
        raise failure(errno.EIO)

    monkeypatch.setattr(filesystem, "room", broken)
    assert "could not be looked at" in why(failure(errno.ENOSPC, tmp_path))


def test_room_and_mounts_of_a_path_that_is_not_there(tmp_path: Path) -> None:
    left, seen = room(tmp_path / "not" / "yet"), os.statvfs(tmp_path)
    assert (left.where, left.total) == (tmp_path, seen.f_blocks * seen.f_frsize)
    assert isinstance(mount_of(tmp_path / "not" / "yet"), Mount)
    assert [size(n) for n in (0, 1023, 1024, 30 << 20)] == ["0 B", "1023 B", "1.0 KiB", "30.0 MiB"]


def test_every_failure_of_a_file_goes_through_the_catalogue() -> None:
    """What the system says alone, or None, stands in no error of the package."""
    found = subprocess.run(
        ["git", "grep", "-n", r"\.strerror", "--", "*.py", ":!tests", ":!runtime/edges",
         ":!runtime/streams.py", ":!runtime/durable.py"],  # a stream is no file; the second adds to the system's words
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert not found


def test_what_a_look_showed_stays_on_this_machine(tmp_path: Path) -> None:
    """It would tell a caller or a report's reader of owners, mounts and processes."""
    shown = why(failure(errno.EIO, tmp_path / "f"))
    assert str(mount_of(tmp_path)) in shown
    text = str(ConfigurationError(f"the ledger stopped (cannot write it: {shown}); restart"))
    assert for_others(text) == f"the ledger stopped (cannot write it: {os.strerror(errno.EIO)}); restart"
    odd = tmp_path / "bell\x07"
    text = str(ConfigurationError(why(failure(errno.EBUSY, odd))))
    assert "bell" in text
    assert for_others(text) == os.strerror(errno.EBUSY)


def test_the_limit_is_this_program_s_own() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert f"may open {soft} files" in why(failure(errno.EMFILE))
