//! `portolan doctor node` without a cluster, and without privileges.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use serde_json::Value;
use testbed::{in_namespace, skip_inside};

use crate::support::program;

/// User without privileges.
const NOBODY: u32 = 65_534;

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(["doctor", "node", "--kubeconfig", "/does/not/exist"])
        .args(arguments);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn host_without_cluster_is_examined() {
    in_namespace(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a parameter of the namespace");
        let output = doctor(&["--record", "-"])
            .output()
            .expect("the binary under test");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let observation: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(observation["kind"], "NodeObservation");
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .to_ascii_lowercase();
        assert_eq!(observation["metadata"]["name"], host);
        for part in [
            "tables",
            "sysctls",
            "links",
            "routes",
            "neighbours",
            "listeners",
            "proxies",
        ] {
            assert!(!observation[part].is_null(), "{part}: {}", stderr(&output));
        }
        let text = doctor(&["--node", "node-a"])
            .output()
            .expect("the binary under test");
        let stdout = String::from_utf8_lossy(&text.stdout).into_owned();
        assert_eq!(stdout, "Node node-a: no findings\n");
        assert!(stderr(&text).contains("only this host"), "{}", stderr(&text));
    });
}

#[test]
fn invalid_requests_are_rejected() {
    let code = |arguments: &[&str]| {
        let output = doctor(arguments).output().expect("the binary under test");
        output.status.code()
    };
    assert_eq!(code(&["--from-file", "/does/not/exist"]), Some(2));
    assert_eq!(code(&["service", "a/b/c"]), Some(2));
    assert_eq!(code(&["service"]), Some(2));
    assert_eq!(code(&["--record", "/does/not/exist"]), Some(1));
}

#[test]
fn parts_that_must_not_be_read_are_named() {
    in_namespace(|| {
        let output = doctor(&["--record", "-"]).uid(NOBODY).gid(NOBODY).output();
        let output = match output {
            Ok(output) => output,
            Err(error) => skip_inside(&format!("the user {NOBODY} cannot run the binary: {error}")),
        };
        let warnings = stderr(&output);
        assert!(warnings.contains("not permitted to read"), "{warnings}");
        assert!(
            warnings.contains("tables") && warnings.contains("conntrack flows"),
            "{warnings}"
        );
        let observation: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(observation["tables"].is_null() && observation["conntrack"]["flows"].is_null());
        assert!(observation["links"].is_array() && observation["sysctls"].is_object());
    });
}
