# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's folder: nothing is overwritten, half-written or believed when damaged."""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.thinning_class import thinning_class
from ragseal.ledger.note import NoteSigner, NoteVerifier
from ragseal.verifier.base.builds import find_class
from ragseal.verifier.folder.key_entries import KeyEntry
from ragseal.verifier.folder.state import State
from ragseal.verifier.steps.log import Forked, LogTree
from ragseal.verifier.steps.turns import TurnedTwice, read_log
from tests.classes import TINY
from tests.simulator import CLASS_DIGEST, CLS, ORIGIN, SimulatedEvidence, World, key_of
from tests.simulator.turning import Turning

MANIFEST, OTHER = bytes(32), b"\x01" * 32
LINE = KeyEntry("ab" * 32, TINY.name, "cd" * 32, "auditor", "keys/tiny-abab")


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State.create(tmp_path / "auditor", Ed25519PrivateKey.generate())


def test_identity_is_private_and_never_replaced(state: State) -> None:
    assert stat.S_IMODE((state.directory / "identity.pem").stat().st_mode) == 0o600
    assert State(state.directory).public_key == state.public_key
    with pytest.raises(ConfigurationError, match="choose another one with --state"):
        State.create(state.directory, Ed25519PrivateKey.generate())
    assert State(state.directory).public_key == state.public_key


@pytest.mark.parametrize("damaged", [b"", b"broken", bytes(2000)])
def test_a_damaged_key_file_is_the_auditor_s_own_to_mend(state: State, damaged: bytes) -> None:
    """Of a proof it would be told to audit again later; nothing that a provider does mends this file."""
    size, thin = CLASSES["estimate-6"], thinning_class(126)
    lines = [
        replace(LINE, key_digest=f"{i}b" * 32, class_name=name, path=f"keys/{name}")
        for i, name in enumerate((TINY.name, size.name, thin.name))
    ]
    for line in lines:
        (state.directory / line.path).mkdir(parents=True)
        (state.directory / line.path / "verifying_key.bin").write_bytes(damaged)
        state.add_key(line)
    digest = bytes.fromhex(LINE.class_digest)
    (block,) = state.estimates({size.name: (size, digest)})
    found = [*state.configured({TINY.name: (CLS, digest)}).values(), block]
    found += state.thinnings({thin.name: (thin, digest)}).values()
    assert len(found) == 3
    for one in found:
        with pytest.raises(ConfigurationError, match=r"the key file in .* is damaged \(.*restore it from a backup"):
            one.load()


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ragseal-verifier init"):
        State(tmp_path / "nowhere")


def test_a_nonce_is_drawn_once(state: State) -> None:
    assert state.nonce(MANIFEST) is None
    first = state.draw_nonce(MANIFEST, b"\x07" * 32, "w", 5)
    assert first == b"\x07" * 32
    assert state.draw_nonce(MANIFEST, b"\x08" * 32, "w", 5) == first
    assert State(state.directory).draw_nonce(MANIFEST, b"\x09" * 32, "w", 5) == first
    assert state.draw_nonce(OTHER, b"\x08" * 32, "w", 5) == b"\x08" * 32
    assert state.nonces() == {MANIFEST: first, OTHER: b"\x08" * 32}
    assert state.drawn() == {MANIFEST: 5, OTHER: 5}
    path = state.directory / "nonces" / f"{MANIFEST.hex()}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_nonce_is_released_for_one_beacon(state: State) -> None:
    assert state.released() == {}
    state.draw_nonce(MANIFEST, b"\x07" * 32, "w", 5)
    assert state.release(MANIFEST, b"s" * 32) == b"s" * 32
    assert State(state.directory).release(MANIFEST, bytes(32)) == b"s" * 32
    assert state.released() == {MANIFEST: b"s" * 32}
    (state.directory / "nonces" / f"{MANIFEST.hex()}.sealed").write_text("12")
    with pytest.raises(ConfigurationError, match="damaged"):
        state.release(MANIFEST, bytes(32))


def test_a_nonce_that_was_restored_under_another_window_s_name_is_refused(state: State) -> None:
    first, second = b"\x01" * 32, b"\x02" * 32
    state.draw_nonce(first, b"n" * 32, "w1", 1_700_000_000)
    folder = state.directory / "nonces"
    (folder / f"{first.hex()}.json").rename(folder / f"{second.hex()}.json")
    for read in (state.nonce, lambda digest: state.draw_nonce(digest, b"f" * 32, "w2", 1_700_000_000)):
        with pytest.raises(ConfigurationError, match="nonce of a different window"):
            read(second)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"nonce": 5}', b'{"nonce": "zz"}', b'{"nonce": "07"}', b"\xff"])
def test_a_damaged_nonce_is_named(state: State, data: bytes) -> None:
    (state.directory / "nonces" / f"{MANIFEST.hex()}.json").write_bytes(data)
    with pytest.raises(ConfigurationError):
        state.nonce(MANIFEST)
    with pytest.raises(ConfigurationError):
        state.draw_nonce(MANIFEST, bytes(32), "w", 5)


def test_keys_are_kept_with_who_made_them(state: State) -> None:
    assert state.key_entries() == []
    state.add_key(LINE)
    state.add_key(LINE)
    assert [replace(line, signature="") for line in State(state.directory).key_entries()] == [LINE]
    with pytest.raises(ConfigurationError, match="do not change hands"):
        state.add_key(KeyEntry(LINE.key_digest, TINY.name, LINE.class_digest, "provider", LINE.path))
    assert [line.made_by for line in state.key_entries()] == ["auditor"]
    configured = state.configured({TINY.name: (CLS, CLASS_DIGEST)})
    assert set(configured) == {LINE.digest}
    assert (configured[LINE.digest].made_by, configured[LINE.digest].class_name) == ("auditor", TINY.name)
    with pytest.raises(ConfigurationError, match="cannot read the verifying key"):
        configured[LINE.digest].load()
    with pytest.raises(ConfigurationError, match="unknown here"):
        state.configured({})[LINE.digest].load()
    with pytest.raises(ConfigurationError, match="holds no proving key"):
        state.proving_key(LINE.digest)


@pytest.mark.parametrize(
    "values",
    [
        "{",
        {},
        [1],
        [{"key_digest": "ab" * 32}],
        [{**vars(LINE), "extra": "x"}] if hasattr(LINE, "__dict__") else [{}],
        [{"key_digest": "AB" * 32, "class_name": "t", "class_digest": "cd" * 32, "made_by": "auditor", "path": "p"}],
        [{"key_digest": "ab", "class_name": "t", "class_digest": "cd" * 32, "made_by": "auditor", "path": "p"}],
        [{"key_digest": "ab" * 32, "class_name": "t", "class_digest": "cd" * 32, "made_by": "me", "path": "p"}],
        [{"key_digest": "ab" * 32, "class_name": 5, "class_digest": "cd" * 32, "made_by": "auditor", "path": "p"}],
    ],
)
def test_damaged_keys_file_is_named(state: State, values: Any) -> None:
    (state.directory / "keys.json").write_text(values if isinstance(values, str) else json.dumps(values))
    with pytest.raises(ConfigurationError):
        state.key_entries()


def test_checkpoints_only_grow(state: State) -> None:
    world = World.honest()
    log = world.signer.verifier
    assert state.remembered(log) is None
    large = read_log(SimulatedEvidence(world), log)
    assert state.remember(log, large) == large.signed
    last = world.messages.pop()
    assert state.remember(log, read_log(SimulatedEvidence(world), log)) == large.signed, "what is kept is said"
    found = State(state.directory).remembered(log)
    assert found is not None
    assert found.checkpoint == large.signed.checkpoint
    for more in ([world.messages[0]], [world.messages[0], last]):  # as large as what was seen, and larger
        other = World.honest()
        other.messages[-1:] = more
        with pytest.raises(Forked, match="forked") as raised:
            state.remember(log, read_log(SimulatedEvidence(other), log))
        assert {"older", "newer"} <= set(raised.value.evidence)
        assert state.remembered(log) == found


def _two_keys() -> list[tuple[NoteVerifier, LogTree]]:
    """The same entries under two keys of one origin."""
    found = []
    for name in ("log", "another"):
        world = World.honest()
        world.signer = NoteSigner(ORIGIN, key_of(name))
        log = world.signer.verifier
        found.append((log, read_log(SimulatedEvidence(world), log)))
    return found


def test_a_sample_s_nonce_is_of_one_log_key(state: State) -> None:
    """Attack: manifest and beacon replayed under another key of the log, the nonce known from a report."""
    (first, seen), (second, again) = _two_keys()
    one, two = b"\x01" * 32, b"\x02" * 32
    assert state.sample_nonce(first, seen, MANIFEST, one) == one
    assert state.sample_nonce(second, again, MANIFEST, two) == two
    assert State(state.directory).sample_nonce(first, seen, MANIFEST, b"\x03" * 32) == one
    assert state.sample_nonce(second, again, MANIFEST, b"\x03" * 32) == two
    folder = state.directory / "samples"
    paths = sorted(folder.glob("*.json"), key=lambda path: json.loads(path.read_text())["nonce"])
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]
    shutil.copy(paths[0], paths[1])
    with pytest.raises(ConfigurationError, match="restore the right file"):
        state.sample_nonce(second, again, MANIFEST, two)


def test_a_sample_s_nonce_of_an_earlier_version_is_used_where_it_is_of_this_log_for_certain(state: State) -> None:
    (first, seen), (second, again) = _two_keys()
    (state.directory / "samples").mkdir()
    for manifest in (MANIFEST, OTHER):
        old = {"manifest": manifest.hex(), "nonce": "07" * 32}
        (state.directory / "samples" / f"{manifest.hex()}.json").write_text(json.dumps(old))
    assert state.sample_nonce(first, seen, MANIFEST, b"\x01" * 32) == b"\x07" * 32
    assert state.sample_nonce(second, again, MANIFEST, b"\x02" * 32) == b"\x02" * 32
    assert state.sample_nonce(first, seen, MANIFEST, b"\x01" * 32) == b"\x07" * 32, "a second log changes nothing"
    assert state.sample_nonce(first, seen, OTHER, b"\x01" * 32) == b"\x01" * 32, "of which log it is nobody knows"


def test_a_damaged_checkpoint_is_named(state: State) -> None:
    world = World.honest()
    log = world.signer.verifier
    state.remember(log, read_log(SimulatedEvidence(world), log))
    (path,) = (state.directory / "checkpoints").glob("*.note")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ConfigurationError, match="damaged"):
        state.remembered(log)


def test_unknown_class_names_the_known() -> None:
    with pytest.raises(CommitmentError, match=f"this build has {TINY.name}"):
        find_class({TINY.name: (CLS, CLASS_DIGEST)}, "huge")
    assert key_of("x")


def test_a_keys_file_of_another_folder_makes_nobody_an_auditors_key(state: State, tmp_path: Path) -> None:
    """Attack or mistake: keys.json copied into another auditor's folder, or made_by written by hand."""
    classes, sizes = {TINY.name: (CLS, CLASS_DIGEST)}, {SIZE.name: (SIZE, bytes.fromhex("cd" * 32))}
    for line in (LINE, BLOCK_LINE):
        state.add_key(line)
    other = State.create(tmp_path / "other", Ed25519PrivateKey.generate())
    shutil.copy(state.directory / "keys.json", other.directory / "keys.json")
    assert other.configured(classes)[LINE.digest].made_by == "unknown"
    assert [one.made_by for one in other.estimates(sizes)] == ["unknown"]
    assert [one.made_by for one in state.estimates(sizes)] == ["auditor"]
    values = json.loads((state.directory / "keys.json").read_text())
    theirs = KeyEntry("12" * 32, TINY.name, "cd" * 32, "provider", "keys/theirs")
    state.add_key(theirs)
    values = json.loads((state.directory / "keys.json").read_text())
    for value in values:
        value["made_by"] = "auditor"
    (state.directory / "keys.json").write_text(json.dumps(values))
    found = state.configured(classes)
    assert (found[theirs.digest].made_by, found[LINE.digest].made_by) == ("unknown", "auditor")
    other.add_key(LINE)
    assert other.configured(classes)[LINE.digest].made_by == "auditor", "added here, it is this folder's word"


def test_a_ceremonys_key_is_nobodys_without_whom_the_auditor_knew(state: State) -> None:
    """Attack, or a mistake: the record of what was relied on is missing, changed, or another key's."""
    said = json.dumps({"known": [{"name": "al\x1bice", "key": "ef" * 32}]})
    told = KeyEntry("12" * 32, TINY.name, "cd" * 32, "ceremony", "keys/theirs", ceremony=said)
    mute = KeyEntry("34" * 32, TINY.name, "cd" * 32, "ceremony", "keys/mute")
    for line in (told, mute):
        state.add_key(line)
    classes = {TINY.name: (CLS, CLASS_DIGEST)}
    found = state.configured(classes)
    assert (found[told.digest].made_by, found[mute.digest].made_by) == ("ceremony", "unknown")
    assert found[told.digest].participants == ("al\\x1bice (" + "ef" * 8 + ")",)
    assert found[mute.digest].participants == ()
    values = json.loads((state.directory / "keys.json").read_text())
    values[0]["ceremony"] = said.replace("ice", "ien")
    values[1]["ceremony"] = said
    (state.directory / "keys.json").write_text(json.dumps(values))
    assert {one.made_by for one in state.configured(classes).values()} == {"unknown"}
    for odd in ("[" * 100_000, "{}", '{"known": []}', '{"known": [1]}', '{"known": 5}', "1"):
        assert replace(told, ceremony=odd).participants == ()


# --- the estimate ----------------------------------------------------------------------------------------------------

SIZE = CLASSES["estimate-6"]
BLOCK_LINE = KeyEntry("ef" * 32, SIZE.name, "cd" * 32, "auditor", "keys/blocks")


def test_keys_of_the_estimate_are_configured_apart(state: State) -> None:
    """They are no keys of an attestation, count for the build that they were made for only, and load when asked for."""
    state.add_key(LINE)
    state.add_key(BLOCK_LINE)
    assert set(state.configured({TINY.name: (CLS, CLASS_DIGEST)})) == {LINE.digest}
    (one,) = state.estimates({SIZE.name: (SIZE, bytes.fromhex("cd" * 32))})
    assert (one.digest, one.class_name, one.made_by) == (BLOCK_LINE.digest, SIZE.name, "auditor")
    with pytest.raises(ConfigurationError, match="cannot read the verifying key"):
        one.load()
    assert state.estimates({SIZE.name: (SIZE, bytes(32))}) == ()
    assert state.estimates({}) == ()


def test_the_first_list_of_links_stays(state: State) -> None:
    """Whatever process asks: one list a window, on disk when it is known."""
    first, second, other = b"one list", b"another list", b"\x01" * 32
    assert state.first_links(bytes(32), first) == first
    assert (state.directory / "links" / f"{bytes(32).hex()}.bin").read_bytes() == first
    assert State(state.directory).first_links(bytes(32), second) == first
    assert state.first_links(other, second) == second


def test_no_block_is_asked_for_where_the_list_cannot_be_kept(state: State) -> None:
    (state.directory / "links").write_text("in the way")
    with pytest.raises(ConfigurationError, match="no block is asked for"):
        state.first_links(bytes(32), b"list")


def test_turns_of_a_log_s_key_are_kept_beside_its_checkpoint(state: State) -> None:
    """SPEC G.6.13: another process of this auditor goes by them, and two turns of one key convict the log."""
    world, other = Turning.turned(), Turning.turned(overlap=3)
    log = world.signer.verifier
    state.keep_turns(world.log_signer.log)
    assert state.log_key(log) == world.log_signer.log
    state.remember(log, read_log(SimulatedEvidence(world), log))
    remembered = state.remembered(log)
    assert remembered is not None
    assert not remembered.void
    with pytest.raises(TurnedTwice):
        state.keep_turns(other.log_signer.log)
    assert state.log_key(log) == world.log_signer.log
