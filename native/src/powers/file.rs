// SPDX-License-Identifier: GPL-3.0-or-later
//! Ranges of points out of a .ptau file, which may be far larger than memory.  Taken as hostile.

use crate::container::{Cursor, MAX_FILE, MAX_SECTIONS};
use crate::curve::{G1, G2};
use crate::encoding::{g1_raw, g2_raw, g2_raw_on_curve, G1_BYTES, G2_BYTES};
use crate::error::{Error, Result};
use crate::r1cs::check_modulus;
use crate::zkey::base_modulus;
use crate::{bail, ensure};
use rayon::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const HEADER: u32 = 1;
pub const TAU_1: u32 = 2;
pub const TAU_2: u32 = 3;
pub const ALPHA_TAU_1: u32 = 4;
pub const BETA_TAU_1: u32 = 5;
pub const BETA_2: u32 = 6;
/// The Lagrange bases of sections 2 to 5 over the domains 1, 2, 4, ...; a file has them once it is prepared for phase 2.
pub const LAGRANGE_TAU_1: u32 = 12;
pub const LAGRANGE_TAU_2: u32 = 13;
pub const LAGRANGE_ALPHA_TAU_1: u32 = 14;
pub const LAGRANGE_BETA_TAU_1: u32 = 15;

/// Bytes of the header section: size of a field element, modulus, power, power of the ceremony.
pub const HEADER_BYTES: u64 = 4 + 32 + 4 + 4;
const MAX_POWER: u32 = 28;

/// An open file and where its sections lie.
pub struct PtauFile {
    file: File,
    sections: Vec<Section>,
    power: u32,
}

struct Section {
    kind: u32,
    start: u64,
    size: u64,
}

pub fn size_of_point(kind: u32) -> usize {
    match kind {
        TAU_2 | BETA_2 | LAGRANGE_TAU_2 => G2_BYTES,
        _ => G1_BYTES,
    }
}

/// Points of a section in a file for n rows.
pub fn points_of(kind: u32, n: usize) -> usize {
    match kind {
        TAU_1 => 2 * n - 1,
        BETA_2 => 1,
        LAGRANGE_TAU_1 => 4 * n - 1,
        LAGRANGE_TAU_2 | LAGRANGE_ALPHA_TAU_1 | LAGRANGE_BETA_TAU_1 => 2 * n - 1,
        _ => n,
    }
}

impl PtauFile {
    /// Index a file; its sections are unique, fill it exactly, and those with points have the size that its power gives.
    pub fn open(path: &Path) -> Result<PtauFile> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        ensure!(meta.is_file(), "not a regular file");
        // A file for 2^28 rows, the largest of the public ceremonies, has 288 GiB.
        ensure!(meta.len() <= MAX_FILE << 4, "the file is too large");
        let sections = index(&file, meta.len())?;
        let mut found = PtauFile {
            file,
            sections,
            power: 0,
        };
        found.power = found.read_power()?;
        for kind in [TAU_1, TAU_2, ALPHA_TAU_1, BETA_TAU_1, BETA_2] {
            found.check_size(kind)?;
        }
        if found.prepared() {
            for kind in LAGRANGE_TAU_1..=LAGRANGE_BETA_TAU_1 {
                found.check_size(kind)?;
            }
        }
        Ok(found)
    }

    fn read_power(&self) -> Result<u32> {
        let header = self.section(HEADER)?;
        ensure!(
            header.size == HEADER_BYTES,
            "the header has {} bytes, {HEADER_BYTES} are expected",
            header.size
        );
        let bytes = self.bytes(header.start, HEADER_BYTES as usize)?;
        let mut cursor = Cursor::new(&bytes);
        check_modulus(&mut cursor, &base_modulus())?;
        let power = cursor.u32()?;
        ensure!(
            (1..=MAX_POWER).contains(&power),
            "powers for 2^{power} rows, 2^1 to 2^{MAX_POWER} are expected"
        );
        Ok(power)
    }

    /// The largest domain of a circuit that the file serves.
    pub fn domain(&self) -> usize {
        1 << self.power
    }

    /// Points that a section must have.
    pub fn points(&self, kind: u32) -> usize {
        points_of(kind, self.domain())
    }

    /// Whether it has Lagrange bases.
    pub fn prepared(&self) -> bool {
        (LAGRANGE_TAU_1..=LAGRANGE_BETA_TAU_1).any(|kind| self.section(kind).is_ok())
    }

    fn section(&self, kind: u32) -> Result<&Section> {
        self.sections
            .iter()
            .find(|s| s.kind == kind)
            .ok_or_else(|| Error(format!("section {kind} is missing")))
    }

    fn check_size(&self, kind: u32) -> Result<()> {
        let (size, points, each) = (self.section(kind)?.size, self.points(kind), size_of_point(kind));
        ensure!(
            size == points as u64 * each as u64,
            "section {kind} has {size} bytes, {points} points of {each} are expected"
        );
        Ok(())
    }

    fn bytes(&self, at: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; count];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    fn range(&self, kind: u32, first: usize, count: usize) -> Result<Vec<u8>> {
        ensure!(
            first + count <= self.points(kind),
            "section {kind} has {} points, {} are needed",
            self.points(kind),
            first + count
        );
        let each = size_of_point(kind);
        self.bytes(self.section(kind)?.start + (first * each) as u64, count * each)
    }

    /// Points [first, first + count) of a section of G1, on the curve and none of them the identity.
    pub fn g1(&self, kind: u32, first: usize, count: usize) -> Result<Vec<G1>> {
        let points = self
            .range(kind, first, count)?
            .par_chunks_exact(G1_BYTES)
            .with_min_len(256)
            .map(g1_raw)
            .collect::<Result<Vec<_>>>()
            .map_err(|e| Error(format!("section {kind}: {e}")))?;
        if let Some(at) = points.iter().position(G1::is_identity) {
            bail!("section {kind}: point {} is the identity", first + at);
        }
        Ok(points)
    }

    /// As [`PtauFile::g1`] for a section of G2 and few points: each is in the subgroup.
    pub fn g2(&self, kind: u32, first: usize, count: usize) -> Result<Vec<G2>> {
        let points = self.parse_g2(kind, first, count, g2_raw)?;
        if let Some(at) = points.iter().position(G2::is_identity) {
            bail!("section {kind}: point {} is the identity", first + at);
        }
        Ok(points)
    }

    /// As [`PtauFile::g2`] for many points: they are on the curve, and the caller owes the check of the subgroup.
    pub fn g2_on_curve(&self, kind: u32, first: usize, count: usize) -> Result<Vec<G2>> {
        self.parse_g2(kind, first, count, g2_raw_on_curve)
    }

    fn parse_g2(&self, kind: u32, first: usize, count: usize, parse: fn(&[u8]) -> Result<G2>) -> Result<Vec<G2>> {
        self.range(kind, first, count)?
            .par_chunks_exact(G2_BYTES)
            .with_min_len(256)
            .map(parse)
            .collect::<Result<_>>()
            .map_err(|e| Error(format!("section {kind}: {e}")))
    }
}

fn index(file: &File, length: u64) -> Result<Vec<Section>> {
    let mut head = [0u8; 12];
    let mut at = 0u64;
    let mut next = |at: &mut u64| -> Result<[u8; 12]> {
        ensure!(
            length - *at >= 12,
            "truncated: 12 bytes expected, {} left",
            length - *at
        );
        file.read_exact_at(&mut head, *at)?;
        *at += 12;
        Ok(head)
    };
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let first = next(&mut at)?;
    ensure!(&first[..4] == b"ptau", "not a ptau file");
    ensure!(
        word(&first[4..]) == 1,
        "version {} where 1 is expected",
        word(&first[4..])
    );
    let count = word(&first[8..]);
    ensure!(count <= MAX_SECTIONS, "{count} sections are too many");
    let mut sections: Vec<Section> = Vec::new();
    for _ in 0..count {
        let bytes = next(&mut at)?;
        let (kind, size) = (
            word(&bytes),
            u64::from_le_bytes(bytes[4..].try_into().expect("eight bytes")),
        );
        ensure!(
            size <= length - at,
            "truncated: section {kind} has {size} bytes, {} are left",
            length - at
        );
        ensure!(sections.iter().all(|s| s.kind != kind), "section {kind} occurs twice");
        sections.push(Section { kind, start: at, size });
        at += size;
    }
    ensure!(at == length, "{} bytes too many", length - at);
    Ok(sections)
}
