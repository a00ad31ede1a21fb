// SPDX-License-Identifier: GPL-3.0-or-later
//! The iden3 binary container (magic, version, sections) and atomic file replacement.

use crate::error::{Error, Result};
use crate::{bail, ensure};
use std::io::{BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;

pub const MAX_SECTIONS: u32 = 64;
pub const MAX_FILE: u64 = 1 << 36;

/// A bounds-checked reader over bytes.
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        ensure!(
            n <= self.rest.len(),
            "truncated: {n} bytes expected, {} left",
            self.rest.len()
        );
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(head)
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub fn left(&self) -> usize {
        self.rest.len()
    }

    pub fn end(&self) -> Result<()> {
        ensure!(self.rest.is_empty(), "{} bytes too many", self.rest.len());
        Ok(())
    }
}

/// A whole file in memory and where its sections lie.
pub struct Container {
    bytes: Vec<u8>,
    sections: Vec<(u32, Range<usize>)>,
}

impl Container {
    /// Read and index a file of `magic` and `version`; sections must be unique and fill the file exactly.
    pub fn read(path: &Path, magic: &[u8; 4], version: u32) -> Result<Container> {
        let named = |e: Error| Error(format!("{}: {e}", path.display()));
        let bytes = read_limited(path).map_err(named)?;
        Container::parse(bytes, magic, version).map_err(named)
    }

    fn parse(bytes: Vec<u8>, magic: &[u8; 4], version: u32) -> Result<Container> {
        let mut c = Cursor::new(&bytes);
        ensure!(c.take(4)? == magic, "not a {} file", String::from_utf8_lossy(magic));
        let found = c.u32()?;
        ensure!(found == version, "version {found} where {version} is expected");
        let count = c.u32()?;
        ensure!(count <= MAX_SECTIONS, "{count} sections are too many");
        let mut sections: Vec<(u32, Range<usize>)> = Vec::new();
        for _ in 0..count {
            let kind = c.u32()?;
            let size = usize::try_from(c.u64()?).unwrap_or(usize::MAX);
            let start = bytes.len() - c.left();
            c.take(size)?;
            ensure!(sections.iter().all(|(k, _)| *k != kind), "section {kind} occurs twice");
            sections.push((kind, start..start + size));
        }
        c.end()?;
        Ok(Container { bytes, sections })
    }

    pub fn section(&self, kind: u32) -> Result<&[u8]> {
        self.find(kind)
            .ok_or_else(|| Error(format!("section {kind} is missing")))
    }

    pub fn find(&self, kind: u32) -> Option<&[u8]> {
        let (_, range) = self.sections.iter().find(|(k, _)| *k == kind)?;
        Some(&self.bytes[range.clone()])
    }

    /// A section of exactly `count` items of `size` bytes.
    pub fn array(&self, kind: u32, count: usize, size: usize) -> Result<&[u8]> {
        let bytes = self.section(kind)?;
        ensure!(
            count.checked_mul(size) == Some(bytes.len()),
            "section {kind} has {} bytes, {count} items of {size} are expected",
            bytes.len()
        );
        Ok(bytes)
    }
}

fn read_limited(path: &Path) -> Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let meta = file.metadata()?;
    ensure!(meta.is_file(), "not a regular file");
    ensure!(meta.len() <= MAX_FILE, "the file is too large");
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    Read::by_ref(&mut file).take(meta.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a container: every section is announced with its size before its bytes.
pub struct Writer<'a> {
    out: BufWriter<&'a mut std::fs::File>,
    promised: u64,
}

impl Writer<'_> {
    pub fn section(&mut self, kind: u32, size: u64) -> Result<()> {
        self.finish_section()?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&size.to_le_bytes())?;
        self.promised = size;
        Ok(())
    }

    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match self.promised.checked_sub(bytes.len() as u64) {
            Some(left) => self.promised = left,
            None => bail!("internal error: a section is longer than announced"),
        }
        self.out.write_all(bytes)?;
        Ok(())
    }

    fn finish_section(&self) -> Result<()> {
        ensure!(
            self.promised == 0,
            "internal error: a section is shorter than announced"
        );
        Ok(())
    }
}

/// Write a container beside `path`, flush it to disk, then rename it into place.
pub fn write_atomically(
    path: &Path,
    mode: u32,
    magic: &[u8; 4],
    version: u32,
    sections: u32,
    body: impl FnOnce(&mut Writer) -> Result<()>,
) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(|e| Error(format!("cannot write in {}: {e}", folder.display())))?;
    let mut writer = Writer {
        out: BufWriter::with_capacity(1 << 20, file.as_file_mut()),
        promised: 12,
    };
    writer.put(magic)?;
    writer.put(&version.to_le_bytes())?;
    writer.put(&sections.to_le_bytes())?;
    body(&mut writer)?;
    writer.finish_section()?;
    writer.out.flush()?;
    drop(writer);
    file.as_file().sync_all()?;
    file.persist(path)
        .map_err(|e| Error(format!("cannot write {}: {e}", path.display())))?;
    Ok(())
}
