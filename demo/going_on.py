# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal up``: the provider of a trial goes on, window after window, with its auditor and a public page.

From then on its folder is nobody's to delete: the trial's mark goes first.
"""

from __future__ import annotations

import shlex
import signal
import time
from contextlib import suppress
from pathlib import Path

import click

from ragseal.demo.folder import keep
from ragseal.demo.processes import Running
from ragseal.demo.progress import out
from ragseal.demo.scenario import ACCOUNT, OWN_TENANT
from ragseal.demo.trying import FOLDER
from ragseal.demo.window import LOG_KEY, POLICY
from ragseal.kernel.errors import ConfigurationError

AUDITOR_AT, PAGE_AT = 1, 80  #: ports after the provider's
LEFT = """\
What is left to decide before others rely on it:
  who audits    here the auditor is you. An auditor of its own makes the keys and takes part in the beacon
                (docs/how-to/audit.md); until then the verdict is your own word.
  addresses     all of this listens on this machine alone. TLS and other machines: docs/how-to/tls.md and deploy.md
  the guarantee policy.toml in the folder; `ragseal-provider plan` measures what others cost in answers
  backups       `ragseal-provider backup`: docs/how-to/backup.md
  who may read  every account of a tenant can find all documents of that tenant: make a tenant for each group
"""


@click.command(short_help="Let the provider of a trial go on")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path(FOLDER))
@click.option("--every", default="24h", show_default=True, help="From one window to the next (30m, 24h, 7d).")
@click.option("--port", type=click.IntRange(1024, 65535 - PAGE_AT), default=7800, show_default=True,
              help=f"Of the provider; the auditor has the next one, the page the one {PAGE_AT} above.")  # fmt: skip
def up(folder: Path, every: str, port: int) -> None:
    """Let the provider that `ragseal try` made go on: windows one after the other, an auditor, a public page.

    It runs until Ctrl-C, and goes on where it stopped. Printed are the commands of an account, an auditor and an
    observer, and what is left to decide before others rely on it.
    """
    provider, auditor = f"127.0.0.1:{port}", f"127.0.0.1:{port + AUDITOR_AT}"
    try:
        log_key = (folder / LOG_KEY).read_text("utf-8").strip()
    except OSError:
        raise ConfigurationError(
            f'{folder} holds no trial of your documents: `ragseal try notes/ "a question" --out {folder}` makes one'
        ) from None
    keep(folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what stops a service stops its processes
    home = {name: str(folder / name) for name in ("provider", "verifier", "observer")}
    with Running(folder / "logs") as processes:
        out.print("provider, auditor and page start")
        processes.start(
            "verifier", "verifier", "serve", "--state", home["verifier"], "--listen", auditor,
            "--provider", provider, "--log-key", log_key, ready=port + AUDITOR_AT,
        )  # fmt: skip
        processes.start(
            "provider", "prover", "serve", "--state", home["provider"], "--listen", provider,
            "--next", str(folder / POLICY), "--every", every, ready=port,
        )  # fmt: skip
        processes.start(
            "page", "ledger", "page", "--state", home["observer"], "--provider", provider, "--log-key", log_key,
            "--http", str(port + PAGE_AT), "--interval", "10", ready=port + PAGE_AT,
        )  # fmt: skip
        for line in _lines(folder, provider, port + PAGE_AT):
            click.echo(line)
        with suppress(KeyboardInterrupt):
            while True:
                processes.check()
                time.sleep(1)
        out.print("stopping provider, auditor and page")
    click.echo("stopped; `ragseal up` with the same folder goes on")


def _lines(folder: Path, provider: str, page: int) -> list[str]:
    """What the parties type."""
    home = {name: shlex.quote(str(folder / name)) for name in ("provider", "verifier", f"accounts/{ACCOUNT}")}
    at = f"--provider {provider} --log-key {shlex.quote(str(folder / LOG_KEY))}"
    return [
        f"the page: http://127.0.0.1:{page}   (records, and a check in the browser)",
        "",
        "an account asks",
        f'  ragseal-client ask "a question" --state {home[f"accounts/{ACCOUNT}"]} {at} --wait 120',
        "another account is made, and takes part from the next window on",
        "  ragseal-client keygen --state alice --account alice",
        f'  eval "$(ragseal-client register-line --state alice --tenant {OWN_TENANT}) --state {home["provider"]}"',
        "documents come and go with the next window",
        f"  ragseal-provider documents put --state {home['provider']} --tenant {OWN_TENANT} --corpus jsonl:FILE",
        "the auditor audits the newest window that is closed",
        f"  ragseal-verifier audit --state {home['verifier']} {at} --out report",
        "an observer follows the log and cosigns it",
        "  ragseal-observer keygen --name observer.example --state watch",
        f"  ragseal-observer follow --state watch {at}",
        "the provider says how it is",
        f"  ragseal-provider status --state {home['provider']}",
        "",
        LEFT,
        "Ctrl-C stops all of it.",
    ]
