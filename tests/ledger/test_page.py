# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: written files, the small server, and the browser's own checks (its script, run by node)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError, TransportError
from ragseal.kernel.verdict import AuditVerdict, log_digest
from ragseal.ledger.__main__ import renew
from ragseal.ledger.auditors import UNKNOWN
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.page import AT_ONCE, Site, index_html
from ragseal.ledger.proof_files import write_files
from ragseal.ledger.public_files import PublicFiles
from ragseal.ledger.tiles import TileFolder
from ragseal.ledger.witness import Witness
from ragseal.runtime.http_server import HttpServer, Request

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x02"), COSIGNATURE)
WEB = Path(__file__).resolve().parents[2] / "ledger" / "web"
HARNESS = Path(__file__).with_name("page_harness.mjs")


class Local:
    """The client's calls straight on a log, without a network between."""

    def __init__(self, log: Log, book: CosignatureBook) -> None:
        self._log, self._book = log, book

    async def checkpoint(self) -> bytes:
        return self._log.checkpoint()

    async def rotations(self) -> list[bytes]:
        return [proof.encode() for proof in self._log.turns()]

    async def cosigned(self) -> bytes | None:
        return self._book.latest()

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self._log.entries(start, count)

    async def inclusion(self, index: int, size: int) -> list[bytes]:
        return self._log.inclusion(index, size)

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return self._log.consistency(old, new)

    async def add_cosignature(self, size: int, witness: str, line: str) -> None:
        self._book.add(size, witness, line, 2**40)


class World:
    """A log, its observer, its page and a browser with a memory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.log = Log.create(folder / "ledger", LOG)
        local: Any = Local(self.log, CosignatureBook(folder / "ledger", self.log))
        self.remote = local
        self.observer = Observer(
            local, LOG.verifier, folder / "state", Witness(folder / "state", KEY), lambda: 1_700_000_000.0
        )
        self.site = Site(self.observer, local, LOG.verifier, [])

    def grow(self, count: int) -> None:
        self.log.append_now([lambda index: f"entry {index}".encode()] * count)

    async def publish(self) -> None:
        await self.observer.step()
        await self.site.write(self.out)

    def visit(self) -> dict[str, Any]:
        if shutil.which("node") is None:
            pytest.skip("node is not installed: the page's script cannot be run")
        command = ["node", str(HARNESS), str(self.out), str(self.folder / "memory.json")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.asyncio
async def test_a_browser_verifies_an_honest_log_and_remembers_it(world: World) -> None:
    world.grow(60)
    await world.publish()
    first = world.visit()
    assert first["state"] == "good"
    assert first["headline"].startswith("✔ Consistent since")
    assert [check.split(":")[0] for check in first["checks"]] == ["✔ passed", "– not checked", "✔ passed"]
    assert first["rows"] == [[str(i), "unknown", "✔ yes"] for i in range(50, 60)]
    world.grow(7)
    await world.publish()
    second = world.visit()
    assert second["state"] == "good"
    assert "the 60 records that this browser remembers are still the beginning" in second["checks"][1]
    assert second["facts"][0] == "67 records"
    status = json.loads((world.out / "status.json").read_text())
    assert second["log"] == {"key": second["key"], "note": status["checkpoint"], "turns": []}
    assert second["key"] == LOG.verifier.vkey()


@pytest.mark.asyncio
async def test_a_verdict_that_no_window_names_is_shown_as_such(world: World) -> None:
    """In the files and as it is served: the log has no manifest that could name whoever signed."""
    key = Ed25519PrivateKey.from_private_bytes(b"x" * 32)
    auditor = key.public_key().public_bytes_raw()
    about = AuditVerdict(bytes(32), log_digest(LOG.verifier.vkey()), auditor, bytes(32), "FAIL", (), bytes(64))
    world.log.append_now([lambda index: about.signed(key).encode()])
    await world.publish()
    served = await world.site.file("entries-0.json")
    assert served is not None
    for data in (served, (world.out / "entries-0.json").read_bytes()):
        [row] = json.loads(data)["entries"]
        assert row["view"]["says"] == f"audited: FAIL by {auditor.hex()} ({UNKNOWN})"


def change(name: str, action: Callable[[dict[str, Any]], None]) -> Callable[[World], None]:
    def apply(world: World) -> None:
        path = world.out / name
        data = json.loads(path.read_text())
        action(data)
        path.write_text(json.dumps(data))

    return apply


def other_log(status: dict[str, Any]) -> None:
    status["checkpoint"] = Checkpoint(LOG.name, 67, bytes(32)).sign(LOG).decode()


def shorter(status: dict[str, Any]) -> None:
    status["checkpoint"] = Checkpoint(LOG.name, 5, bytes(32)).sign(LOG).decode()


def other_key(status: dict[str, Any]) -> None:
    stranger = NoteSigner(LOG.name, Ed25519PrivateKey.from_private_bytes(bytes(32)))
    status["vkey"] = stranger.verifier.vkey()
    status["checkpoint"] = Checkpoint(LOG.name, 67, bytes(32)).sign(stranger).decode()


def unsigned(status: dict[str, Any]) -> None:
    status["checkpoint"] = status["checkpoint"].replace("\n67\n", "\n68\n")


def alarm(status: dict[str, Any]) -> None:
    status["alarm"] = "two logs of one size"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (change("status.json", other_log), "history was rewritten|does not lead to the signed root"),
        (change("status.json", shorter), "shorter than when you were here last"),
        (change("status.json", other_key), "not the one of your last visit"),
        (change("status.json", unsigned), "bad signature"),
        (change("status.json", alarm), "two logs of one size"),
        (change("consistency-60-67.json", lambda d: d["path"].pop()), "wrong length"),
        (change("consistency-60-67.json", lambda d: d["path"].reverse()), "rewritten|signed root"),
    ],
)
async def test_a_browser_that_was_here_before_is_not_fooled(
    world: World, tamper: Callable[[World], None], message: str
) -> None:
    world.grow(60)
    await world.publish()
    world.visit()
    memory = (world.folder / "memory.json").read_text()
    world.grow(7)
    await world.publish()
    tamper(world)
    seen = world.visit()
    assert seen["state"] == "bad"
    assert re.search(message, seen["headline"])
    assert (world.folder / "memory.json").read_text() == memory  # what it remembers is still the good one
    # what whole windows and files are checked against: no key that is not the remembered one, no log that is not its
    assert seen["key"] in (LOG.verifier.vkey(), "")
    assert (seen["log"] is None) == ("two logs" not in message)


@pytest.mark.asyncio
async def test_names_steer_no_line(world: World) -> None:
    """A witness may be called anything, with characters that turn a line round too."""
    world.grow(3)
    await world.publish()
    change(
        "status.json",
        lambda status: status["witnesses"].append({"name": "w\u202e\u200b\u00adx", "vkey": "", "note": ""}),
    )(world)
    change("entries-0.json", lambda data: data["entries"][0]["view"].update(type="a\u202eb"))(world)
    seen = world.visit()
    assert seen["checks"][-1].startswith("✘ FAILED: witness w\\u{202e}\\u{200b}\\u{ad}x: ")
    assert seen["rows"][0][1] == "a\\u{202e}b"


@pytest.mark.asyncio
async def test_a_browser_sees_a_wrong_record(world: World) -> None:
    world.grow(7)
    await world.publish()

    def wrong(data: dict[str, Any]) -> None:
        data["entries"][2]["entry"] = "AAAA"
        data["entries"][3]["entry"], data["entries"][3]["view"] = (
            data["entries"][4]["entry"],
            data["entries"][4]["view"],
        )
        data["entries"][5]["path"].pop()

    change("entries-0.json", wrong)(world)
    rows = world.visit()["rows"]
    assert [row[2][0] for row in rows] == ["✔", "✔", "✘", "✘", "✔", "✘", "✔"]


@pytest.mark.asyncio
async def test_a_page_loaded_while_the_log_grows_says_so(world: World) -> None:
    world.grow(3)
    await world.publish()
    status = (world.out / "status.json").read_text()
    world.grow(2)
    await world.publish()
    (world.out / "status.json").write_text(status)
    seen = world.visit()
    assert seen["state"] == "good"
    assert all("newer checkpoint: reload" in row[2] for row in seen["rows"])


def test_the_page_needs_nothing_from_outside() -> None:
    html = index_html().decode()
    assert not re.search(r"(src|href)=[\"'](https?:)?//|@import|url\(", html)
    assert "innerHTML" not in html
    assert "unsafe-inline" not in html
    assert "/* verify */" not in html
    for needed in ('lang="en"', "default-src 'none'", 'role="status"', "<caption>", 'scope="col"', "<main>"):
        assert needed in html


def test_the_policy_allows_exactly_the_scripts_that_the_page_holds() -> None:
    """And the bundle among them is the committed one, by the digest that stands beside it."""
    html = index_html().decode()
    policy = re.search(r"script-src ([^;]*); style-src ([^;]*);", html)
    assert policy is not None

    def hashes(found: list[str]) -> str:
        digests = [hashlib.sha256(text.encode()).digest() for text in found]
        return " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)

    scripts = re.findall(r"<script(?: id=\"verify\")?>(.*?)</script>", html, re.DOTALL)
    assert (len(scripts), html.count("<script")) == (3, 3)
    assert policy[1] == hashes(scripts)
    assert policy[2] == hashes(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    digest = hashlib.sha256(scripts[0].encode()).hexdigest()
    assert (WEB / "verify.js.sha256").read_text() == f"{digest}  verify.js\n"
    assert html.count(digest) == 1  # the page says it


@pytest.mark.asyncio
async def test_the_small_server(world: World) -> None:
    world.grow(3)
    with pytest.raises(LedgerError, match="nothing was verified"):
        await world.site.file("status.json")
    await world.observer.step()
    server = HttpServer(world.site.handle)
    address = await server.start("127.0.0.1:0")
    port = int(address.rpartition(":")[2])

    async def get(request: bytes) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    assert await get(b"GET / HTTP/1.1\r\n\r\n") == (200, index_html())
    status = json.loads((await get(b"GET /status.json?x HTTP/1.1\r\n\r\n"))[1])
    assert (status["origin"], status["alarm"], len(status["witnesses"])) == (LOG.name, "", 1)
    assert len(json.loads((await get(b"GET /entries-0.json HTTP/1.1\r\n\r\n"))[1])["entries"]) == 3
    assert (await get(b"GET /consistency-1-3.json HTTP/1.1\r\n\r\n"))[0] == 200
    assert (await get(b"GET /consistency-0-3.json HTTP/1.1\r\n\r\n"))[0] == 502
    assert (await get(b"HEAD / HTTP/1.1\r\n\r\n")) == (200, b"")
    assert (await get(b"POST / HTTP/1.1\r\n\r\n"))[0] == 405
    for name in (b"../ledger/checkpoint", b"%2e%2e/x", b"entries-00.json", b"evidence-alarm.json", b"key.pem"):
        assert (await get(b"GET /" + name + b" HTTP/1.1\r\n\r\n"))[0] == 404
    assert (await get(b"\r\n\r\n"))[0] == 400
    with pytest.raises(ConfigurationError, match="cannot listen"):
        await HttpServer(world.site.handle).start(address)
    await server.stop()


@pytest.mark.asyncio
async def test_many_visitors_ask_the_log_a_few_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.grow(3)
    await world.observer.step()
    real, together = world.remote.entries, [0, 0]

    async def entries(start: int, count: int) -> list[bytes]:
        together[0] += 1
        together[1] = max(together)
        await asyncio.sleep(0.001)
        together[0] -= 1
        return await real(start, count)

    monkeypatch.setattr(world.remote, "entries", entries)
    names = ["entries-0.json"] * 20
    assert None not in await asyncio.gather(*(world.site.file(name) for name in names))
    assert together[1] == AT_ONCE


@pytest.mark.asyncio
async def test_a_visitor_is_told_no_folder(world: World) -> None:
    world.grow(1)
    await world.observer.step()
    (memory,) = (world.folder / "state").glob("*.note")
    memory.write_bytes(b"damaged")
    with pytest.raises(ConfigurationError):  # the server answers 500 without its text
        await world.site.handle(Request("GET", "/status.json", {}))


@pytest.mark.asyncio
async def test_a_page_is_not_written_over_wrong_entries(world: World) -> None:
    world.grow(3)
    await world.observer.step()

    async def lie(start: int, count: int) -> list[bytes]:
        return [b"other"] * count

    world.remote.entries = lie
    with pytest.raises(AuditError, match="entries different from those it signed"):
        await world.site.write(world.out)
    assert not world.out.exists()


# --- a whole public site ---------------------------------------------------------------------------------------------


async def _get(site: PublicFiles, path: str, method: str = "GET") -> tuple[int, bytes]:
    answer = await site.handle(Request(method, path, {}))
    return answer.status, answer.body


@pytest.mark.asyncio
async def test_tiles_and_proofs_lie_beside_the_page(world: World) -> None:
    world.grow(300)
    await world.observer.step()
    folder = world.folder / "public"
    tiles = TileFolder(folder, LOG.verifier)
    await renew(tiles, world.remote, world.observer)
    name = f"proofs/{'ab' * 32}/256.bin"
    write_files(folder, {name: b"proofs", "proofs/secret.bin": b"not for anybody"})
    site = PublicFiles(folder, world.site.handle)
    status, note = await _get(site, "/checkpoint")
    assert (status, open_checkpoint(note, LOG.verifier).checkpoint.size) == (200, 300)
    assert [(await _get(site, path))[0] for path in ("/tile/0/000", "/tile/entries/001.p/44")] == [200, 200]
    assert await _get(site, f"/{name}") == (200, b"proofs")
    assert (await _get(site, f"/{name}".replace("256", "512")))[0] == 404
    assert (await _get(site, "/"))[1] == index_html()
    for path in ("/proofs/secret.bin", "/.sizes.json", "/tile/../checkpoint", "/proofs/../../state/name", "/lock"):
        assert (await _get(site, path))[0] == 404, path
    assert (await _get(site, "/checkpoint", "POST"))[0] == 405
    tiles.close()


@pytest.mark.asyncio
async def test_tiles_go_on_with_the_log_and_stop_at_an_alarm(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.grow(3)
    await world.observer.step()
    tiles = TileFolder(world.folder / "public", LOG.verifier)

    async def size() -> int:
        await renew(tiles, world.remote, world.observer)
        known = tiles.known()
        assert known is not None
        return known.checkpoint.size

    assert await size() == 3
    world.grow(2)
    assert await size() == 5
    with monkeypatch.context() as patched:
        patched.setattr(world.observer, "alarm", lambda: ("forked", world.folder))
        world.grow(2)
        assert await size() == 5, "what stands beside the alarm is what was there before it"
    with monkeypatch.context() as patched:
        patched.setattr(world.remote, "entries", lambda *_: _away())
        assert await size() == 5
    assert "tiles not renewed: away" in capsys.readouterr().err
    assert await size() == 7
    tiles.close()


async def _away() -> list[bytes]:
    raise TransportError("away")
