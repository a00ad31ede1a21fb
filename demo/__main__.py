# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal``: try everything on one machine, and let it go on."""

from __future__ import annotations

import click

from ragseal.demo.going_on import up
from ragseal.demo.trying import try_
from ragseal.runtime.terminal import CONTEXT, Teaching, version


@click.group(cls=Teaching, context_settings=CONTEXT)
@version("ragseal")
def main() -> None:
    """See what ragseal does, with your documents and on this machine alone.

    \b
    From nothing to a verdict:
      ragseal try notes/ "How do I rotate a log file?"     (provider, auditor, observer and account, in ./ragseal-trial)
      ragseal up                                           (the same provider goes on: a window a day)

    The programs of the parties are ragseal-provider, ragseal-verifier, ragseal-observer and ragseal-client.
    """


main.add_command(try_)
main.add_command(up)

if __name__ == "__main__":
    main()
