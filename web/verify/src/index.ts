// SPDX-License-Identifier: GPL-3.0-or-later
/** @ragseal/verify: checks of ragseal's public files, in a browser or in Node. */
import { takeOrders } from "./worker.js";

export { Refusal, fromHex, hex } from "./bytes.js";
export { decode, decodeAny, peekTag } from "./decoder.js";
export { type Dropped, type DroppedOptions, checkDropped } from "./dropped.js";
export { CLASSES } from "./generated/classes.js";
export * from "./generated/messages.js";
export { limitOf, readBody } from "./limits.js";
export { type Files, tilePath } from "./log.js";
export { printable } from "./printable.js";
export * as internals from "./internals.js";
export { signingKey } from "./turns.js";
export { type Line, type Options, type Report, verifyWindow } from "./verify.js";
export type { News, Order } from "./worker.js";

takeOrders();
