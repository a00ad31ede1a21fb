// SPDX-License-Identifier: GPL-3.0-or-later
/** What these checks never show, said with every report. SPEC G.15. */
export const NOT_CHECKED: readonly (readonly [string, string])[] = [
  ["who asked", "that a record's request was signed by a registered account of the tenant whose index it names: names, keys and tenants of accounts are the auditor's alone"],
  ["origin of the keys", "who made the verifying keys: whoever made them alone could have proven what is not so"],
  ["noise and epsilon", "the noise table, that the policy's numbers fit its class, and the epsilon that follows from both and from the windows of the budget period"],
  ["estimate", "how many accounts may be asking together: links between records are the auditor's alone"],
  ["answers", "that accounts were handed what their records commit to: each account checks its own"],
  ["the auditor's nonce", "that the auditor's nonce is its own, and was kept until everybody else's was known"],
];
