//! Kernel module and parameters of IPVS (IPV-05).

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

const PARAMETERS: &str = "/proc/sys";
/// Parameter without which masquerading does not see the packets of virtual servers.
const CONNECTION_TRACKING: &str = "net/ipv4/vs/conntrack";
/// Kernel from which on `conn_reuse_mode` needs no change: it no longer delays new connections.
const REUSE_IS_FAST: (u32, u32) = (5, 9);

/// Loads the IPVS module. A failure has no other effect: the caller detects if IPVS is available.
pub(super) fn load_module() {
    let modprobe = Command::new("modprobe")
        .args(["-q", "ip_vs"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match modprobe {
        Ok(status) if status.success() => {}
        Ok(status) => tracing::debug!(%status, "modprobe ip_vs failed"),
        Err(error) => tracing::debug!(%error, "modprobe not started"),
    }
}

/// Writes the parameters that IPVS mode needs. Failures besides that of connection tracking are logged.
///
/// # Errors
///
/// The error of a write if virtual servers do not use connection tracking.
pub(super) fn write_parameters(strict_arp: bool) -> io::Result<()> {
    write(CONNECTION_TRACKING, "1")?;
    write_optional(strict_arp);
    Ok(())
}

/// Writes the parameters whose failure is only logged.
fn write_optional(strict_arp: bool) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    for (name, value) in optional_parameters(strict_arp, version(&release)) {
        if let Err(error) = write(name, value) {
            tracing::warn!(name, value, %error, "kernel parameter not written");
        }
    }
}

/// Returns the parameters whose failure is only logged, with their values.
fn optional_parameters(strict_arp: bool, version: Option<(u32, u32)>) -> Vec<(&'static str, &'static str)> {
    let mut values = vec![
        ("net/ipv4/vs/expire_nodest_conn", "1"),
        ("net/ipv4/vs/expire_quiescent_template", "1"),
        ("net/ipv4/ip_forward", "1"),
    ];
    if version.is_some_and(|version| version < REUSE_IS_FAST) {
        values.push(("net/ipv4/vs/conn_reuse_mode", "0"));
    }
    if strict_arp {
        values.push(("net/ipv4/conf/all/arp_ignore", "1"));
        values.push(("net/ipv4/conf/all/arp_announce", "2"));
    }
    values
}

/// Writes a parameter unless it has the value.
fn write(name: &str, value: &str) -> io::Result<()> {
    let path = Path::new(PARAMETERS).join(name);
    if std::fs::read_to_string(&path)?.trim() == value {
        return Ok(());
    }
    std::fs::write(&path, value)
}

/// Returns the first two numbers of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release
        .trim()
        .split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
