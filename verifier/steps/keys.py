# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 3: the verifying key is one of the auditor's own configuration.  SPEC A.9, D.3."""

from __future__ import annotations

from ragseal.kernel.errors import ConfigurationError
from ragseal.verifier.evidence.evidence import OWN_FOLDER, Auditor, ConfiguredKey, Key, Undecided, binds
from ragseal.verifier.steps.manifest import Entered
from ragseal.verifier.steps.recorder import Recorder, quiet


def check_key(auditor: Auditor, window: Entered, say: Recorder = quiet) -> tuple[ConfiguredKey[Key], Key]:
    """Step 3: the verifying key is one of the auditor's own configuration, made for this very class.

    Raises:
        Undecided: a key that the auditor does not hold, or of another class.
    """
    wanted = window.manifest.key_digest
    say(key_digest=wanted, configured=len(auditor.keys))
    configured = auditor.keys.get(wanted)
    if configured is None:
        raise Undecided(
            "the manifest names a verifying key that is not in this auditor's configuration; keys are never taken "
            "from a manifest",
            "make one with keygen before the next window, or check a ceremony's and trust it",
        )
    policy = window.manifest.policy
    if (configured.class_name, configured.class_digest) != (policy.class_name, policy.class_digest):
        raise Undecided(
            "the configured key was made for another circuit class",
            OWN_FOLDER,
            made_for=configured.class_name,
        )
    key = configured.load()
    if key.digest != wanted:
        raise ConfigurationError(f"the key file of {wanted.hex()} holds another key: restore it or trust it again")
    say(**configured.origin, sound_for_auditor=binds(configured.made_by))
    return configured, key
