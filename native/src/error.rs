// SPDX-License-Identifier: GPL-3.0-or-later
//! The one error that leaves this module, and the gate through which Python calls run.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::panic::{catch_unwind, AssertUnwindSafe};

create_exception!(
    ragseal_native,
    NativeError,
    PyValueError,
    "Malformed input, a failed check or an impossible request; the message says which."
);

/// A message for a person: what is wrong and, where there is one, the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

pub type Result<T> = std::result::Result<T, Error>;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<Error> for PyErr {
    fn from(e: Error) -> PyErr {
        NativeError::new_err(e.0)
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error(format!("input/output: {e}"))
    }
}

/// Return an [`Error`] made by `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::error::Error(format!($($arg)*))) };
}

/// Return an [`Error`] unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($arg:tt)*) => { if !$cond { $crate::bail!($($arg)*); } };
}

/// Run `work` without the GIL.  A panic is a bug of ours, yet it must not take the process down: it becomes an error.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    match done {
        Ok(result) => Ok(result?),
        Err(_) => Err(NativeError::new_err("internal error in the native module")),
    }
}
