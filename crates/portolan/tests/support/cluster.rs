//! Script that starts a real cluster, and the programs that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of a real cluster, with an argument that makes them exit at once.
pub const PROGRAMS: [(&str, &str); 10] = [
    ("containerd", "--version"),
    ("runc", "--version"),
    ("kubectl", "--help"),
    ("etcd", "--version"),
    ("conntrack", "--version"),
    ("nft", "--version"),
    ("iptables", "--version"),
    ("curl", "--version"),
    ("wget", "--version"),
    ("python3", "--version"),
];

/// Returns the script, or prints why `test` is skipped: no script, no root, or a missing program of
/// [`PROGRAMS`] and `others`.
pub fn script_or_skip(test: &str, others: &[(&'static str, &'static str)]) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cluster/cluster.sh");
    let script = std::env::var_os("PORTOLAN_CLUSTER").map_or(beside, PathBuf::from);
    if !script.is_file() {
        println!("skipped: {test}: no script of a real cluster is beside the checkout");
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: root is required");
        return None;
    }
    if let Some((program, _)) = PROGRAMS.iter().chain(others).find(|program| is_missing(program)) {
        println!("skipped: {test}: {program} is not installed");
        return None;
    }
    Some(script)
}

fn is_missing((program, argument): &(&str, &str)) -> bool {
    let output = Command::new(program).arg(argument).output();
    !output.is_ok_and(|output| output.status.success())
}
