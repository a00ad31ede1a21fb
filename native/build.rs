// SPDX-License-Identifier: GPL-3.0-or-later
//! `cfg(processor)`: this compiler knows AVX-512's intrinsics (1.89 and later).  `cfg(lanes)`: it does, or they are emulated,
//! which is `cfg(emulated)`, from the feature of that name.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(lanes, processor, emulated)");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let said = std::process::Command::new(compiler).arg("--version").output();
    let text = said.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
    // rustc 1.89.0 (29483883e 2025-08-04)
    let mut numbers = text
        .split_whitespace()
        .nth(1)
        .unwrap_or("")
        .split('.')
        .map(|n| n.parse::<u32>());
    let known = matches!((numbers.next(), numbers.next()), (Some(Ok(1)), Some(Ok(minor))) if minor >= 89);
    let processor = known && std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64");
    let emulated = std::env::var_os("CARGO_FEATURE_EMULATED").is_some();
    for (name, holds) in [
        ("processor", processor),
        ("emulated", emulated),
        ("lanes", processor || emulated),
    ] {
        if holds {
            println!("cargo:rustc-cfg={name}");
        }
    }
}
