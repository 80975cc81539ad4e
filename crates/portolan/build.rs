//! Options of the linker: compact relocations, if the C library of this host reads them.
//!
//! The binary is position-independent, and the loader adjusts 87,000 addresses in it at each start. In the usual form,
//! their table has 2 MB. The loader reads all of it, and the process keeps the pages. In the compact form (DT_RELR), the
//! table has 21 kB. glibc reads that form from version 2.36 on.

use std::process::Command;

/// First version of glibc that reads compact relocations.
const RELR_VERSION: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if is_for_this_host() && glibc_version().is_some_and(|version| version >= RELR_VERSION) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns true if the binary is built for the platform of this host.
fn is_for_this_host() -> bool {
    std::env::var_os("HOST") == std::env::var_os("TARGET")
}

/// Returns the version of glibc on this host; `None` if it has none.
fn glibc_version() -> Option<(u32, u32)> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(printed.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
