//! Script that starts a real cluster, and the programs that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of a real cluster, with an argument that makes them exit at once.
pub(crate) const PROGRAMS: [(&str, &str); 10] = [
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

/// Variable with the path of a script that starts a cluster.
const VARIABLE: &str = "PORTOLAN_CLUSTER_SCRIPT";
/// Path of the script without the variable, from the directory of this crate.
const DEFAULT: &str = "../../../shared/cluster/cluster.sh";

/// Returns the script, or prints why `test` is skipped: no script, no root, or a missing program of
/// [`PROGRAMS`] and `others`.
pub(crate) fn script_or_skip(test: &str, others: &[(&'static str, &'static str)]) -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join(DEFAULT);
    let script = std::env::var_os(VARIABLE).map_or(default, PathBuf::from);
    if !script.is_file() {
        println!("skipped: {test}: PORTOLAN_CLUSTER_SCRIPT names no script that starts a cluster");
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
