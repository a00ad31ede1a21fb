# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests should notice a small fault, for each file that scripts/mutation.py mutates."""

from __future__ import annotations

#: file -> the tests that should notice, fast ones first.
TESTS: dict[str, list[str]] = {
    "kernel/transcript.py": ["kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/slot_text.py": ["kernel/test_slot_text.py"],
    "kernel/squarednorm.py": ["kernel/test_squarednorm.py", "kernel/test_certificate.py"],
    "kernel/opening.py": ["kernel/test_opening.py", "kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/folding.py": ["kernel/test_opening.py", "kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/certificate.py": [
        "kernel/test_certificate.py", "kernel/test_hashed.py", "attacks/test_estimate_lists.py",
        "verifier/test_proofs.py", "attacks/test_estimate.py",
    ],
    "kernel/link_list.py": [
        "kernel/test_estimate.py", "kernel/test_certificate.py", "kernel/test_hashed.py",
        "attacks/test_estimate_lists.py", "verifier/test_proofs.py", "attacks/test_estimate.py",
    ],
    "kernel/estimate_class.py": ["kernel/test_estimate.py", "kernel/test_certificate.py", "circuits/test_estimate.py"],
    "kernel/encoding.py": ["kernel/test_encoding.py", "kernel/test_hashed.py", "fuzz/test_decoders.py"],
    "kernel/field.py": ["kernel/test_curve.py", "kernel/test_encoding.py", "kernel/test_opening.py"],
    "kernel/signature.py": ["kernel/test_publickey.py", "kernel/test_hashed.py"],
    "kernel/estimate.py": ["kernel/test_estimate.py"],
    "kernel/policy.py": ["kernel/test_policy.py", "prover/test_policies.py"],
    "kernel/fixedpoint.py": ["kernel/test_certificate.py", "kernel/test_policy.py"],
    "kernel/bn254.py": ["kernel/test_curve.py", "kernel/test_hashed.py", "kernel/test_folding.py"],
    "kernel/statement.py": ["kernel/test_noise_mechanism.py", "kernel/test_hashed.py", "backends/test_mechanism.py"],
    "kernel/mechanism.py": ["kernel/test_hashed.py"],
    "kernel/attestation.py": [
        "kernel/test_hashed.py", "kernel/test_message_refusals.py", "kernel/test_hashed_asks.py",
        "client/test_attestation.py", "verifier/test_proofs.py", "verifier/test_attestation.py",
        "client/test_sealed.py", "attacks/test_moved.py",
    ],
    "kernel/proofs.py": [
        "kernel/test_hashed.py", "kernel/test_message_refusals.py", "verifier/test_proofs.py", "attacks/test_moved.py",
    ],
    "kernel/commitment.py": [
        "kernel/test_hashed.py", "kernel/test_message_refusals.py", "kernel/test_hashed_asks.py",
        "verifier/test_commitment.py", "verifier/test_beacon.py", "verifier/test_meanwhile.py",
        "attacks/test_folding.py",
    ],
    "kernel/coin_proof.py": ["kernel/test_thinning.py", "attacks/test_thinning_statement.py"],
    "kernel/coin_period.py": ["kernel/test_thinning.py", "attacks/test_carried_coins.py"],
    "kernel/verdict.py": [
        "kernel/test_message_refusals.py", "kernel/test_hashed.py", "attacks/test_submitted_verdicts.py",
    ],
    "groth16/relations.py": ["attacks/test_keys.py"],
    "verifier/signed/json_text.py": ["web/test_verdicts_in_node.py"],
    "verifier/signed/statement.py": ["verifier/test_signed_verdict.py", "web/test_verdicts_in_node.py"],
    "verifier/steps/turns.py": [
        "attacks/test_log_keys_auditors.py", "attacks/test_log_keys.py", "attacks/test_log_keys_shown.py",
    ],
    "verifier/steps/period.py": [
        "verifier/test_period_parts.py", "verifier/test_odometer.py", "attacks/test_coins_of_a_period.py",
        "attacks/test_carried_coins.py",
    ],
    "kernel/publickey.py": ["kernel/test_publickey.py"],
    "kernel/sealing.py": ["kernel/test_sealing.py"],
    "kernel/inquiry.py": ["kernel/test_message_refusals.py", "kernel/test_hashed_asks.py", "prover/test_admission.py"],
    "accounting/pld.py": [
        "accounting/test_safe_side.py", "accounting/test_pld.py", "accounting/test_gaussian_steps.py",
    ],
    "accounting/topk.py": [
        "accounting/test_safe_side.py", "accounting/test_topk.py", "accounting/test_gaussian_steps.py",
    ],
    "accounting/audit.py": [
        "accounting/test_safe_side.py", "accounting/test_audit.py", "accounting/test_gaussian_steps.py",
    ],
    "accounting/failures.py": ["accounting/test_failures.py", "accounting/test_safe_side.py"],
    "accounting/delivered.py": [
        "accounting/test_safe_side.py", "accounting/test_delivered.py", "accounting/test_delivered_period.py",
    ],
    "accounting/answers.py": ["accounting/test_answers.py"],
    "accounting/guess.py": ["accounting/test_statistics.py"],
    "accounting/rounding.py": ["accounting/test_statistics.py"],
    "ledger/merkle.py": ["ledger/test_merkle.py"],
    "ledger/note.py": ["ledger/test_note.py", "ledger/test_checkpoint.py"],
    "ledger/checkpoint.py": ["ledger/test_checkpoint.py", "ledger/test_note.py"],
    "groth16/pairing.py": ["native/test_plain_python.py"],
    "groth16/verifying_key.py": ["native/test_plain_python.py", "native/test_hostile_files.py"],
    "groth16/views.py": [
        "groth16/test_views.py", "verifier/test_real_key.py", "native/test_plain_python.py", "attacks/test_estimate.py",
        "attacks/test_estimate_lists.py",
    ],
    "client/attestation.py": [
        "client/test_attestation.py", "client/test_tampering.py", "client/test_signed_lies.py",
        "client/test_commands.py",
    ],
    "client/commitment.py": [
        "client/test_opening.py", "client/test_announced.py", "client/test_signed_lies.py", "client/test_tampering.py",
        "client/test_client.py",
    ],
    "client/opening.py": ["client/test_opening.py", "client/test_announced.py"],
    "client/history.py": [
        "client/test_announced.py", "client/test_opening.py", "client/test_tampering.py", "client/test_signed_lies.py",
        "client/test_client.py",
    ],
    "verifier/steps/sample.py": ["verifier/test_sample.py"],
    "verifier/steps/blocks.py": ["verifier/test_sample.py", "verifier/test_blocks.py"],
    "verifier/steps/log.py": ["verifier/test_log.py", "verifier/test_beacon.py", "verifier/test_meanwhile.py"],
    "verifier/steps/asking.py": [
        "verifier/test_verification.py", "verifier/test_proofs.py", "attacks/test_outsiders.py",
    ],
    "verifier/steps/receipts.py": [
        "verifier/test_attestation.py", "attacks/test_records.py", "verifier/test_log.py",
        "verifier/test_verification.py", "attacks/test_outsiders.py",
    ],
    "verifier/steps/beacon.py": [
        "verifier/test_beacon_order.py", "verifier/test_beacon.py", "verifier/test_meanwhile.py",
        "attacks/test_windows.py",
    ],
    "verifier/audit/participant.py": [
        "verifier/test_beacon.py", "verifier/test_meanwhile.py", "verifier/test_beacon_order.py",
    ],
    "verifier/steps/manifest.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/lifespan.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/keys.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/index.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/noise_table.py": [
        "verifier/test_commitment.py", "verifier/test_verification.py", "verifier/test_epsilon.py",
    ],
    "verifier/steps/records.py": ["verifier/test_attestation.py", "attacks/test_records.py"],
    "verifier/steps/proofs.py": ["verifier/test_proofs.py", "attacks/test_moved.py"],
    "verifier/steps/estimate.py": [
        "verifier/test_blocks.py", "attacks/test_estimate_lists.py", "verifier/test_sample.py",
        "verifier/test_verification.py", "attacks/test_estimate.py", "attacks/test_outsiders.py",
    ],
    "verifier/steps/epsilon.py": ["verifier/test_epsilon.py", "verifier/test_odometer.py", "attacks/test_epsilon.py"],
    "verifier/audit/verification.py": [
        "verifier/test_verification.py", "verifier/test_verdicts.py", "verifier/test_remote.py",
        "verifier/test_meanwhile.py", "attacks/test_withheld.py",
    ],
    "verifier/outcome/checklist.py": ["verifier/test_verification.py", "attacks/test_withheld.py"],
    "verifier/folder/verdicts.py": [
        "verifier/test_verdicts.py", "verifier/test_beacon.py", "verifier/test_meanwhile.py",
    ],
    "verifier/outcome/outcome.py": [
        "verifier/test_verdicts.py", "verifier/test_report.py", "verifier/test_verification.py",
    ],
    "verifier/evidence/patience.py": ["verifier/test_remote.py"],
    "verifier/evidence/remote.py": ["verifier/test_remote.py", "verifier/test_proofs.py"],
    "verifier/folder/key_entries.py": ["verifier/test_state.py", "verifier/test_real_key.py"],
    "verifier/outcome/guess.py": ["verifier/test_report.py", "verifier/test_summary.py"],
    "verifier/service/limits.py": ["verifier/test_service.py"],
    "verifier/steps/dp_accounting_check.py": ["verifier/test_odometer.py", "verifier/test_epsilon.py"],
    "verifier/folder/state.py": [
        "verifier/test_state.py", "verifier/test_beacon.py", "verifier/test_meanwhile.py", "attacks/test_files.py",
    ],
    "verifier/folder/key_store.py": ["verifier/test_state.py", "verifier/test_real_key.py", "attacks/test_files.py"],
    "client/acceptance.py": [
        "client/test_announced.py", "client/test_opening.py", "client/test_sealed.py", "client/test_signed_lies.py",
        "client/test_tampering.py",
    ],
    "client/window.py": [
        "client/test_client.py", "client/test_owed.py", "client/test_opening.py", "client/test_sealed.py",
    ],
    "client/account.py": ["client/test_account.py", "client/test_client.py", "client/test_tampering.py"],
    "client/receipts.py": ["client/test_account.py", "client/test_sealed.py", "client/test_commands.py"],
    "client/repeat.py": ["client/test_client.py", "client/test_owed.py", "client/test_sealed.py"],
    "client/link.py": ["client/test_client.py", "client/test_owed.py", "client/test_against_provider.py"],
    "client/client.py": [
        "client/test_client.py", "client/test_owed.py", "client/test_tampering.py", "client/test_sealed.py",
        "client/test_signed_lies.py",
    ],
    "client/exchanges.py": [
        "client/test_client.py", "client/test_owed.py", "client/test_tampering.py", "client/test_sealed.py",
        "client/test_signed_lies.py",
    ],
    "ledger/published.py": ["ledger/test_log.py"],
    "ledger/receipt.py": ["ledger/test_receipt.py", "client/test_tampering.py", "client/test_signed_lies.py"],
    "ledger/entries.py": ["ledger/test_page.py", "fuzz/test_decoders.py"],
    "ledger/cosignatures.py": ["ledger/test_cosignatures.py", "ledger/test_service.py"],
    "ledger/observer.py": ["ledger/test_observer.py", "attacks/test_windows.py"],
    "ledger/witness.py": ["ledger/test_witness.py", "ledger/test_observer.py"],
    "ledger/remote.py": ["ledger/test_service.py", "runtime/test_certificates.py"],
    "runtime/tokenbucket.py": ["runtime/test_tokenbucket.py"],
    "groth16/zkey.py": ["native/test_plain_python.py", "native/test_hostile_files.py"],
    "circuits/container.py": ["native/test_plain_python.py", "native/test_hostile_files.py"],
    "groth16/coefficients.py": ["native/test_hostile_files.py"],
    "groth16/g2.py": ["native/test_plain_python.py"],
    "kernel/printable.py": ["attacks/test_hostile_names.py"],
    "runtime/gate.py": ["attacks/test_exhaustion.py"],
    "runtime/limits.py": ["attacks/test_exhaustion.py"],
    "runtime/peers.py": ["attacks/test_exhaustion.py"],
    "runtime/statuses.py": ["ledger/test_service.py", "runtime/test_certificates.py", "verifier/test_remote.py"],
    "runtime/durable.py": [
        "attacks/test_exhaustion.py", "ledger/test_log.py", "ledger/test_log_damage.py", "crash/test_storage.py",
    ],
    "prover/attestation/admission.py": ["attacks/test_provider_load.py", "attacks/test_who_gets_what.py"],
    "prover/attestation/asked.py": ["attacks/test_auditors_asks.py"],
    "prover/commitment/loaded.py": ["attacks/test_provider_load.py"],
    "prover/commitment/guard.py": ["prover/test_guard.py"],
    "prover/attestation/own_lines.py": ["attacks/test_who_gets_what.py", "attacks/test_provider_load.py"],
    "prover/workers/turns.py": ["attacks/test_auditors_asks.py", "prover/test_proofs.py"],
    "prover/serving/deliveries.py": ["attacks/test_auditors_asks.py", "attacks/test_who_gets_what.py"],
    "prover/base/limits.py": ["prover/test_admission.py", "attacks/test_provider_load.py"],
    "accounting/period.py": ["accounting/test_gaussian_steps.py", "verifier/test_odometer.py"],
    "accounting/claims/bound.py": ["claims/test_golden.py", "verifier/test_odometer.py"],
    "accounting/claims/claim.py": ["claims/test_golden.py", "accounting/test_delivered_period.py"],
    "accounting/claims/every_list.py": ["claims/test_golden.py", "verifier/test_report.py"],
    "accounting/claims/until_delivered.py": ["claims/test_golden.py", "accounting/test_delivered_period.py"],
    "accounting/claims/answers.py": ["claims/test_golden.py", "accounting/test_answers.py"],
    "accounting/claims/notes.py": ["claims/test_golden.py"],
}  # fmt: skip
