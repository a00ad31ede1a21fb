// SPDX-License-Identifier: GPL-3.0-or-later
/** Parts by themselves, for tests against vectors/: not part of what the package promises. */
export { drawTable, tableDigest } from "./asked.js";
export { encodePoint, generators, msm, point, points } from "./curve.js";
export { upward } from "./claimed.js";
export { included, parseProof } from "./dropped.js";
export { checkColumns, checkNamed } from "./indices.js";
export { checkInclusion, leafHash, merkleRoot } from "./merkle.js";
export { openCheckpoint, parseKey, parseNote, signedBy } from "./note.js";
export { Equations, checkOpening } from "./opening.js";
export { meets, parsePolicy } from "./quorum.js";
export { checkPublicKey, checkSealKey, checkSignature } from "./signature.js";
export { challenge, nonzeroElement, pack, taggedElement, taggedHash } from "./transcript.js";
export { hasUnknownLine } from "./turns.js";
export { readVerdict } from "./verdict.js";
export { VerifyingKey, decodeProof } from "./verifying_key.js";
