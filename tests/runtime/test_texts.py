# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of text that people write, by itself; who uses it is held in tests/test_text_readers.py."""

from __future__ import annotations

import datetime
import io
import os
import threading
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.runtime import texts
from ragseal.runtime.json_text import parse_json, parse_object


def lines(data: bytes, **limits: int) -> list[tuple[int, str]]:
    limits = {"most_line": 1 << 10, "most": 1 << 20, **limits}
    return list(texts.lines_of(io.BytesIO(data), "f", error=EncodingError, **limits))  # type: ignore[arg-type]


def test_a_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"x" * 101)
    assert texts.read_bytes(path, "big", most=101) == b"x" * 101
    with pytest.raises(ConfigurationError, match="big has more than 100 bytes"):
        texts.read_bytes(path, "big", most=100)


@pytest.mark.parametrize(("name", "said"), [("/dev/zero", "device"), ("/", "folder"), ("/none", "No such file")])
def test_what_is_no_file_is_not_read(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        texts.read_bytes(Path(name), "it")


def test_a_name_with_a_zero_byte_is_no_files() -> None:
    with pytest.raises(ConfigurationError, match="no file has such a name"):
        texts.read_bytes(Path("a\0b"), "it")


def test_a_pipe_is_read_as_the_shell_hands_it_over() -> None:
    reading, writing = os.pipe()
    writer = threading.Timer(0.2, lambda: (os.write(writing, b"a = 1\n"), os.close(writing)))
    writer.start()
    try:
        assert texts.read_toml(Path(f"/dev/fd/{reading}"), "it") == {"a": 1}
    finally:
        writer.join()
        os.close(reading)


def test_a_pipe_that_nobody_writes_into_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "SILENCE", 0.2)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="nothing came through it"):
        texts.read_bytes(tmp_path / "pipe", "it")


def test_a_pipe_is_bounded_too() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x" * 11)
    os.close(writing)
    try:
        with pytest.raises(ConfigurationError, match="more than 10 bytes"):
            texts.read_bytes(Path(f"/dev/fd/{reading}"), "it", most=10)
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\n\xff", r"it, line 2: not UTF-8 \(0xff\) at byte 1"),
        (b"a\nb\xed\xa0\x80", "line 2: half of a surrogate pair, which is no character, at byte 2"),
        (b"a\0b and much more of it", "line 1: a zero byte, which no text has, at byte 2"),
        ("Текст без латиницы\n".encode("utf-16-le"), "is UTF-16LE, not UTF-8"),
        ("文字だけ\n".encode("utf-16-be"), "is UTF-16BE, not UTF-8"),
        ("\U0001f600 x\n".encode("utf-32-le"), "is UTF-32LE, not UTF-8"),
        (b"\0" * 64, "zero byte"),
    ],
)
def test_what_is_no_text_is_named_by_its_place(data: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        texts.text_of(data, "it")


def test_marks_are_taken_off_the_front_alone() -> None:
    assert texts.text_of("\ufeff\ufeffa\ufeffb".encode(), "it") == "a\ufeffb"


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_toml_may_end_its_lines_as_it_likes(ends: str) -> None:
    assert texts.toml_of(f"a = 1{ends}b = 2{ends}".encode(), "it") == {"a": 1, "b": 2}


def test_what_is_no_toml_is_named_with_what_it_should_be() -> None:
    with pytest.raises(ConfigurationError, match=r"it is not TOML: Expected .*\. A form"):
        texts.toml_of(b"a", "it", form="A form")
    with pytest.raises(ConfigurationError, match="it is not TOML"):
        texts.toml_of(b"a = " + b"[" * 100_000, "it")


@pytest.mark.parametrize("given", ["1234", " 1234\t\r\n", "\ufeff1234\n\n", b"\xef\xbb\xbf1234\r\n", "12 34"])
def test_a_key_stands_alone(given: str | bytes) -> None:
    assert texts.line_of(given, "it").replace(" ", "") == "1234"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "it is empty"),
        (" \ufeff\n", "it is empty"),
        ("12\n34", "holds 2 lines"),
        ("12\r34\r\n56", "holds 3 lines"),
        ("12\u200b34", r"character 3 is U\+200B"),
        ("12\u00a0", r"character 3 is U\+00A0"),
        ("12\u202834", r"character 3 is U\+2028"),
        ("12\udce9", "character 3 is a byte that is not UTF-8"),
    ],
)
def test_what_nobody_sees_in_a_key_is_named_and_the_key_is_not_shown(given: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        texts.line_of(given, "it")
    assert "12" not in str(caught.value)


def test_lines_end_in_newlines_alone() -> None:
    assert lines("a\u2028b\x0bc\x85d\r\n\re".encode()) == [(1, "a\u2028b\x0bc\x85d\r"), (2, "\re")]
    assert lines(b"") == lines("\ufeff".encode()) == []
    assert lines(b"\n") == lines("\ufeff\n".encode()) == [(1, "")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\n\xef\xbb\xbfb\n", "f, line 2: begins with a byte order mark"),
        (b"a\nbc\xff\n", "f, line 2: not UTF-8 .0xff. at byte 3"),
        (b"a\nbc\xff\xa5\n", "f, line 2: not UTF-8 .0xff. at byte 3"),
        (b"a\n\xed\xa0\x80\n", "f, line 2: half of a surrogate pair, which is no character, at byte 1"),
        (b"a\nb\0 and much more\n", "f, line 2: a zero byte, which no text has, at byte 2"),
        (b"\xff\xfea\0\n\0", "UTF-16LE"),
        (b"a" * 1025, "line 1: longer than 1024 bytes"),
        (b"a\n" * 600_000, "exceeds 1048576 bytes"),
    ],
)
def test_a_line_that_is_no_text_is_named(data: bytes, said: str) -> None:
    with pytest.raises(EncodingError, match=said):
        lines(data)


def test_the_longest_line_and_the_largest_file_are_read() -> None:
    """The line's end counts."""
    assert lines(b"a" * 1024) == [(1, "a" * 1024)]
    assert lines(b"a" * 1023 + b"\n") == [(1, "a" * 1023)]
    assert len(lines((b"a" * 1023 + b"\n") * 1024)) == 1024
    with pytest.raises(EncodingError, match="line 1: longer"):
        lines(b"a" * 1024 + b"\n")
    with pytest.raises(EncodingError, match="line 1025: the file exceeds 1048576 bytes"):
        lines((b"a" * 1023 + b"\n") * 1024 + b"a")


def test_values_are_shown_as_a_file_has_them() -> None:
    assert texts.shown(True) == "true"
    assert texts.shown("a") == "'a'"
    assert texts.shown(0.5) == "0.5"
    assert texts.shown(datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)) == "2026-01-02T03:00:00+00:00"
    assert texts.shown(datetime.time(3)) == "03:00:00"
    assert texts.shown([1, 2]) == "a list of 2"
    assert texts.shown({}) == "a table"
    assert texts.shown(10**5000) == "a whole number of 16610 bits"
    assert len(texts.shown("x" * 500)) < 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "w: not JSON .the member 'a' occurs twice"),
        ('[{"b": {"a": 1, "a": 1}}]', "occurs twice"),
        ("NaN", "NaN is not JSON"),
        ("[" * 100_000, "nested deeper than 64"),
        ("", "w: not JSON"),
    ],
)
def test_json_loses_nothing(text: str, said: str) -> None:
    with pytest.raises(EncodingError, match=said):
        parse_json(text, "w")


def test_json_nests_so_deep_and_brackets_in_texts_do_not_count() -> None:
    assert parse_json("[" * 64 + "]" * 64, "w") is not None
    for opened, closed in (("[", "]"), ('{"a":', "}")):
        with pytest.raises(EncodingError, match="nested deeper than 64"):
            parse_json(opened * 65 + "1" + closed * 65, "w")
    text = r"\"" + "[{" * 65
    assert parse_json(f'["{text}"]', "w") == ['"' + "[{" * 65]


def test_an_object_is_an_object() -> None:
    assert parse_object('{"a": [1]}', "w") == {"a": [1]}
    with pytest.raises(EncodingError, match="w: not a JSON object but a list"):
        parse_object("[1]", "w")
