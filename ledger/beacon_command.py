# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-observer beacon``: a place in the beacon of every window of one provider."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import click

from ragseal.kernel.beacon import BeaconCommit
from ragseal.kernel.errors import AuditError
from ragseal.ledger.beacon_place import BeaconPlace
from ragseal.ledger.observer import AlarmError, Observer
from ragseal.ledger.options import (
    Peer,
    clock,
    open_witness,
    peer_options,
    plain_errors,
    progress_lines,
    state_option,
    witness_policy_option,
)
from ragseal.ledger.policy import Policy
from ragseal.ledger.remote import RemoteBeacon
from ragseal.ledger.witness import state_name
from ragseal.runtime.keyfile import load_key
from ragseal.runtime.logs import log_to_stderr


@click.command(short_help="Take part in the beacons of windows")
@plain_errors
@peer_options
@state_option
@click.option("--as", "name", metavar="NAME", required=True,
              help="What the provider's operator calls you (`ragseal-provider serve --observer`).")  # fmt: skip
@click.option("--interval", type=click.FloatRange(min=0.1), default=5.0, show_default=True,
              help="Seconds between looks: a provider waits about a minute for participants.")  # fmt: skip
@witness_policy_option
def beacon(peer: Peer, state: Path, name: str, interval: float, witness_policy: Path | None) -> None:
    """Take part in the beacon of every window, and follow the ledger as `follow` does.

    Nobody knows what a window draws before the last honest participant opens: the provider and its auditors could
    choose it, if they conspire and nobody else takes part. Commits to a secret number once a window's manifest is in
    the ledger, and opens it once the provider has fixed who takes part. Let it run: a window waits for an observer that
    its provider named, for a while. `keygen` prints the KEY that the operator needs. Give --witness-policy where the
    log has witnesses: a provider could show you alone a log in which your number is not secret any more.
    """
    log_to_stderr()
    policy = None if witness_policy is None else Policy.load(witness_policy).of(peer.log)
    memory = (state / state_name(peer.log.name)).with_suffix(".beacon.json")

    async def run() -> None:
        async with peer.connect_both() as (remote, entrance):
            with open_witness(state) as witness:
                place = BeaconPlace(memory, name, load_key(state / "key.pem"), os.urandom, time.time)
                observer = Observer(remote, peer.log, state, witness, time.time, policy, place)
                said = ""
                while True:
                    said = await take_part(observer, place, entrance, said)
                    await asyncio.sleep(interval)

    asyncio.run(run())


async def take_part(observer: Observer, place: BeaconPlace, entrance: RemoteBeacon, said: str) -> str:
    """One look, and what is due after it; returns what was said, so that it is said once.

    Raises:
        AlarmError: the log contradicts itself.
    """
    try:
        step = await observer.step(progress_lines("hashed", "entries"))
        stage, window, message = place.due()
        if isinstance(message, BeaconCommit):
            await entrance.commit(message.encode())
        elif message is not None:
            await entrance.open(message.encode())
        now = f"window {window}: {stage.value}" if window else f"{step.origin}: {stage.value}"
    except AlarmError:
        raise
    except AuditError as error:
        now = f"not done: {error}"
    if now != said:
        click.echo(f"{clock()} {now}")
    return now
