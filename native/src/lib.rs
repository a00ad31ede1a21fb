// SPDX-License-Identifier: GPL-3.0-or-later
//! Native parts of ragseal.  Every byte string and file that comes in is taken as hostile.

#[cfg(all(emulated, not(test)))]
compile_error!("the feature emulated is for tests: what is built with it is slow");

mod arrays;
pub mod columns;
pub mod consistency;
mod constants;
pub mod container;
pub mod curve;
pub mod decoys;
mod elements;
pub mod encoding;
pub mod error;
mod filter;
pub mod fixed_base;
pub mod folding;
pub mod generators;
pub mod inner_product;
pub mod linear;
pub mod miller;
pub mod msm;
pub mod noise;
pub mod point;
pub mod poseidon;
mod poseidon_constants;
pub mod powers;
pub mod prove;
mod python;
pub mod r1cs;
mod ranges;
pub mod scalars;
pub mod scores;
pub mod setup;
#[cfg(lanes)]
#[allow(clippy::incompatible_msrv)] // compiled where the compiler is new enough: build.rs
#[cfg_attr(emulated, allow(unused_unsafe, clippy::redundant_closure))] // only the processor's need it
mod simd;
pub mod snarkjs;
pub mod solver;
#[cfg(test)]
mod vectors;
pub mod verify;
pub mod witness;
pub mod zkey;
