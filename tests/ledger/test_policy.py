# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy files as C2SP tlog-policy has them: what is read, what is refused in which line, and what a quorum is."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import EMPTY_ROOT
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner, NoteVerifier
from ragseal.ledger.policy import MAX_LINES_OF_A_KIND, Policy, QuorumError


def key(number: int, algorithm: int = COSIGNATURE, name: str = "") -> NoteSigner:
    private = Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))
    return NoteSigner(name or f"k{number}.example", private, algorithm)


def vkey(number: int, algorithm: int = COSIGNATURE, name: str = "") -> str:
    return key(number, algorithm, name).verifier.vkey()


LOG = key(1, 1)
EXAMPLE = f"""\
# the example of the specification
log {vkey(1, 1)}

witness X1 {vkey(11)}
 witness\tX2 {vkey(12)} https://x2.example/prefix
witness X3 {vkey(13)}
group X-witnesses 2 X1 X2 X3

witness Y1 {vkey(21)}
witness Y2 {vkey(22)}
witness Y3 {vkey(23)}\t
group Y-witnesses any Y1 Y2 Y3

  # two levels
group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
"""


def cosigned(*numbers: int) -> bytes:
    text = Checkpoint(LOG.name, 0, EMPTY_ROOT).text()
    return Note(text, (LOG.sign(text), *(key(number).sign(text, 1000) for number in numbers))).encode()


def test_the_specifications_example_in_every_combination() -> None:
    policy = Policy.parse(EXAMPLE.encode()).of(LOG.verifier)
    assert [one.url for one in policy.witnesses][1] == "https://x2.example/prefix"
    numbers = (11, 12, 13, 21, 22, 23)
    for count in range(len(numbers) + 1):
        for chosen in itertools.combinations(numbers, count):
            wanted = sum(n < 20 for n in chosen) >= 2 and any(n > 20 for n in chosen)
            assert policy.reached_by(key(n).verifier for n in chosen) is wanted
    signed = policy.open(cosigned(11, 13, 22, 77), LOG.verifier)
    assert {one.verifier.name for one in signed.witnesses} == {"k11.example", "k13.example", "k22.example"}


def test_too_few_strangers_and_repeated_lines_are_no_quorum() -> None:
    policy = Policy.parse(EXAMPLE.encode())
    for numbers in ((), (11, 12), (11, 11, 21), (11, 77, 21), (21, 22, 23), (77, 78, 79)):
        with pytest.raises(
            QuorumError, match="which is not the quorum 'X-and-Y' \\(2 of 'X-witnesses', 'Y-witnesses'\\)"
        ):
            policy.open(cosigned(*numbers), LOG.verifier)


def test_the_same_name_with_another_key_does_not_count() -> None:
    policy = Policy.parse(f"witness w {vkey(5)}\nquorum w\n".encode())
    text = Checkpoint(LOG.name, 0, EMPTY_ROOT).text()
    twin = key(6, name="k5.example")
    with pytest.raises(QuorumError):
        policy.open(Note(text, (LOG.sign(text), twin.sign(text, 9))).encode(), LOG.verifier)
    assert not policy.reached_by([twin.verifier])


def test_a_line_of_a_named_witness_that_fails_refuses_the_note() -> None:
    policy = Policy.parse(f"witness w {vkey(5)}\nwitness v {vkey(6)}\ngroup g any v w\nquorum g\n".encode())
    text = Checkpoint(LOG.name, 0, EMPTY_ROOT).text()
    note = Note(text, (LOG.sign(text), key(6).sign(text, 9), key(5).sign(text + "x\n", 9))).encode()
    with pytest.raises(LedgerError, match="does not verify"):
        policy.open(note, LOG.verifier)


def test_no_quorum_and_a_single_witness() -> None:
    none = Policy.parse(b"quorum none\n")
    assert none.reached_by(())
    none.open(cosigned(), LOG.verifier)
    assert Policy.parse(f"witness w {vkey(5)}\nquorum w".encode()).reached_by([key(5).verifier])


def test_names_are_octets() -> None:
    kelvin, odd = "\u212a".encode(), b"\xff\xfe"
    lines = [b"witness K %s" % vkey(5).encode(), b"witness %s %s" % (kelvin, vkey(6).encode())]
    lines += [b"witness %s %s" % (odd, vkey(7).encode()), b"group g 2 K %s %s" % (kelvin, odd), b"quorum g"]
    policy = Policy.parse(b"\n".join(lines))
    assert policy.reached_by([key(6).verifier, key(7).verifier])
    assert not policy.reached_by([key(5).verifier])


def test_a_policy_of_other_logs_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_text(EXAMPLE)
    policy = Policy.load(path)
    with pytest.raises(ConfigurationError, match="is not for the log") as caught:
        policy.of(key(2, 1).verifier)
    assert f"log {vkey(2, 1)}" in str(caught.value)  # the way out
    Policy.parse(b"quorum none").of(key(2, 1).verifier)


def test_as_many_lines_as_the_specification_asks_for() -> None:
    lines = [f"log {vkey(100 + n, 1)}" for n in range(32)] + [f"witness w{n} {vkey(n + 1)}" for n in range(32)]
    lines += [f"group g{n} any w{n}" for n in range(32)]
    assert len(Policy.parse("\n".join([*lines, "quorum g31"]).encode()).witnesses) == 32


ONE = f"witness w {vkey(5)}"
TWO = f"{ONE}\nwitness v {vkey(6)}"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "the quorum is missing"),
        (ONE, 1, "the quorum is missing"),
        ("quorum", 1, "expected `quorum NAME`"),
        ("quorum none none", 1, "expected `quorum NAME`"),
        ("quorum none\nquorum none", 2, "there is a quorum above already"),
        ("quorum w\n" + ONE, 1, "is not defined above"),
        ("Quorum none", 1, "is none of log, witness, group and quorum"),
        ("quorum none # really", 1, "expected `quorum NAME`"),
        ("quorum none\r\n", 1, "control character 0x0d"),
        ("quorum\x0bnone", 1, "control character 0x0b"),
        ("quorum none\x7f", 1, "control character 0x7f"),
        ("\ufeffquorum none", 1, "is none of log"),
        ("log", 1, "expected `log VKEY"),
        (f"log {vkey(1, 1)} url more", 1, "expected `log VKEY"),
        ("log nonsense", 1, "verifier key"),
        (f"log {vkey(1)}", 1, "a log's key has type 0x01"),
        (f"log {vkey(1, 1)}\nlog {vkey(1, 1, 'other.example')}", 2, "stands above already"),
        ("witness w", 1, "expected `witness NAME"),
        (f"witness w {vkey(1, 1)}", 1, "a witness's key has type 0x04"),
        (f"witness none {vkey(5)}", 1, "a meaning of its own"),
        (f"{ONE}\nwitness w {vkey(6)}", 2, "'w' is defined above already"),
        (f"{ONE}\nwitness v {vkey(5, name='other.example')}", 2, "one key would count twice"),
        ("witness w " + vkey(5).replace(key(5).verifier.key_id.hex(), "00000000"), 1, "is not this key's"),
        (f"{ONE}\ngroup g any", 2, "expected `group NAME"),
        (f"{ONE}\ngroup w any w", 2, "'w' is defined above already"),
        (f"{ONE}\ngroup none any w", 2, "a meaning of its own"),
        (f"{ONE}\ngroup g any none", 2, "is not defined above"),
        (f"{ONE}\ngroup g any g", 2, "is not defined above"),
        (f"{ONE}\ngroup g any w w", 2, "each name counts once"),
        (f"{TWO}\ngroup g any w\ngroup h all w v", 4, "each name counts once"),
        (f"{ONE}\ngroup g 0 w", 2, "0 of 1 members"),
        (f"{ONE}\ngroup g 2 w", 2, "2 of 1 members"),
        (f"{ONE}\ngroup g -1 w", 2, "is none of all, any and a number"),
        (f"{ONE}\ngroup g ² w", 2, "is none of all, any and a number"),
        (f"{ONE}\ngroup g 99999999999 w", 2, "is none of all, any and a number"),
        (
            "\n".join(f"witness w{n} {vkey(n + 1)}" for n in range(MAX_LINES_OF_A_KIND + 1)),
            65,
            "more than 64 witnesses",
        ),
        ("# " + "x" * (1 << 18), 1, "more than"),
    ],
)
def test_what_is_refused_in_which_line(text: str, line: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(EncodingError, match=r"^line") as caught:
        Policy.parse(text.encode())
    assert str(caught.value).startswith(f"line {line}: ")
    assert said in str(caught.value)
    path = tmp_path / "policy"
    path.write_bytes(text.encode())
    if text in ("quorum none\r\n", "\ufeffquorum none"):  # what editors add to a file is no part of the policy
        assert Policy.load(path).asks_nobody
        return
    with pytest.raises(ConfigurationError, match=f"policy, line {line}: |policy has more than"):
        Policy.load(path)


def test_an_error_shows_no_control_characters() -> None:
    with pytest.raises(EncodingError) as caught:
        Policy.parse("quorum \u202e\x80x".encode("utf-8", "surrogatepass"))
    assert str(caught.value).isprintable()
    with pytest.raises(ConfigurationError, match="cannot read"):
        Policy.load(Path("/nonexistent/policy"))


# A log's key, as an option names it.


def log(number: int) -> NoteVerifier:
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return NoteVerifier("example.org/rag", key.public_key().public_bytes_raw())


NAMED, OTHER = log(1), log(2)


@pytest.mark.parametrize("name", ["log.key", "c++.key", "a+b+c.key", "+", f"{NAMED.name.replace('/', '-')}+aa+bb"])
def test_a_file_is_read_whatever_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"\ufeff{NAMED.vkey()}\r\n")
    assert named_log(str(tmp_path / name)) == NAMED


def test_a_key_may_have_what_a_shell_leaves_around_it() -> None:
    assert named_log(f"\ufeff {NAMED.vkey()} \r\n") == NAMED


def test_a_key_is_a_key_whatever_files_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = Path(NAMED.vkey())
    named.parent.mkdir(parents=True, exist_ok=True)
    named.write_text(OTHER.vkey())  # a stranger's file, under the key's own text
    assert named_log(NAMED.vkey()) == NAMED


@pytest.mark.parametrize(
    ("text", "wrong", "said"),
    [
        ("/none/c++.key", EncodingError, "there is no file '/none/c"),
        ("nothing", EncodingError, "there is no file 'nothing'"),
        ("", ConfigurationError, "is empty"),
        (f"{NAMED.vkey()}\n{OTHER.vkey()}", ConfigurationError, "2 lines"),
        (NAMED.vkey().replace("+", "\u200b+", 1), ConfigurationError, r"U\+200B"),
        (NAMED.vkey()[:-4] + "AAA=", EncodingError, "32 bytes, not 31"),
        ("/dev/zero", ConfigurationError, "device"),
        ("/", ConfigurationError, "folder"),
    ],
)
def test_what_is_neither_is_refused(text: str, wrong: type[AuditError], said: str) -> None:
    with pytest.raises(wrong, match=said):
        named_log(text)
