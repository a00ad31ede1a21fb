// SPDX-License-Identifier: GPL-3.0-or-later
//! Native parts of ragseal.  Every byte string and file that comes in is taken as hostile.

pub mod columns;
pub mod curve;
pub mod encoding;
pub mod error;
pub mod generators;
pub mod msm;
pub mod poseidon;
mod python;
pub mod scalars;
