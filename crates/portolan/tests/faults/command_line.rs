//! Error messages for invalid flags and for missing privileges.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::Api;

/// User without privileges on every Linux.
const NOBODY: u32 = 65_534;

fn run(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .expect("the binary under test")
}

/// Checks the exit code and returns the only line of standard error.
fn error_line(output: &Output, code: i32, subject: &str) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{subject}: {text}");
    assert_eq!(text.lines().count(), 1, "{subject}: {text}");
    assert!(text.starts_with("portolan: "), "{subject}: {text}");
    text
}

#[test]
fn invalid_values_are_reported_in_one_line_with_exit_code_2() {
    for (arguments, expected) in [
        ("apiserver --listen=nowhere", "--listen"),
        ("apiserver --service-cluster-ip-range=10.0.0.1/8", "10.0.0.0/8"),
        (
            "apiserver --service-cluster-ip-range=10.0.0.0/8,11.0.0.0/8",
            "one IPv4 and one IPv6",
        ),
        ("apiserver --service-node-port-range=5-1", "FIRST-LAST"),
        ("proxy --proxy-mode=kernelspace", "possible values: nftables"),
        ("proxy --cluster-cidr=10.0.0.0/8,11.0.0.0/8", "clusterCIDR"),
        ("proxy --nodeport-addresses=eth0", "nodePortAddresses"),
        ("proxy --healthz-bind-address=80", "0.0.0.0:10256"),
        ("proxy --no-such-flag", "--no-such-flag"),
        ("dns --forward=resolver", "--forward"),
        ("dns --cluster-domain=a..b", "--cluster-domain"),
        ("dns --cluster-domain=.", "--cluster-domain"),
        ("dns --ttl=4000", "3600"),
        ("agent --pod-cidr=10.244.0.0/33", "CIDR"),
        ("agent --node-labels=zone", "KEY=VALUE"),
        ("playground --nodes=0", "1..=64"),
        ("up --dns-port=65536", "65535"),
        ("up --logging-format=xml", "possible values: auto, text, json"),
        ("version --log-level=a=b=c", "--log-level"),
        ("sail", "sail"),
    ] {
        let output = run(Command::new(env!("CARGO_BIN_EXE_portolan")).args(arguments.split(' ')));
        let line = error_line(&output, 2, arguments);
        assert!(line.contains(expected), "{arguments}: {line}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn subcommands_are_listed_without_arguments() {
    let output = run(&mut Command::new(env!("CARGO_BIN_EXE_portolan")));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("playground"), "{text}");
}

#[test]
fn result_that_is_not_written_fails_the_command() {
    for arguments in ["version", "explain", "completions bash", "--help", "token --help"] {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = run_with_output(arguments, full);
        let line = error_line(&output, 1, arguments);
        assert!(
            line.contains("standard output: No space left"),
            "{arguments}: {line}"
        );
    }
}

#[test]
fn closed_pipe_is_no_error() {
    for arguments in ["version", "explain", "completions bash", "--help"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = run_with_output(arguments, writer);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{arguments}: {output:?}"
        );
    }
}

fn run_with_output(arguments: &str, destination: impl Into<Stdio>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(arguments.split(' '))
        .stdin(Stdio::null())
        .stdout(destination)
        .stderr(Stdio::piped());
    let process = command.spawn().expect("the binary under test");
    process.wait_with_output().expect("the exit code of the binary")
}

/// Runs a copy of the binary without privileges. Root runs it as `nobody`. Another user runs it without change, because
/// that user has no capabilities in the network namespace of the host.
fn unprivileged(directory: &Path, arguments: &[&str]) -> Output {
    let program = directory.join("portolan");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_portolan"), &program).expect("a copy of the binary under test");
    }
    let mut command = Command::new(program);
    command.args(arguments).arg("--log-level=off");
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    run(&mut command)
}

#[test]
fn missing_privileges_are_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let api = Api::start();
    // The kubeconfig of the administrator is private; `nobody` reads a copy.
    std::fs::copy(api.kubeconfig(), path("kubeconfig")).expect("a kubeconfig");
    for open in [directory.path(), &path("kubeconfig")] {
        std::fs::set_permissions(open, Permissions::from_mode(0o755)).expect("file permissions");
    }
    let kubeconfig = format!("--kubeconfig={}", path("kubeconfig").display());
    let data = format!("--data-dir={}", path("data").display());
    let state = format!("--state-dir={}", path("state").display());
    for arguments in [
        ["proxy", &kubeconfig].as_slice(),
        &["proxy", "--cleanup"],
        &["up", &data],
        &["agent", &kubeconfig, &state],
    ] {
        let output = unprivileged(directory.path(), arguments);
        let line = error_line(&output, 1, arguments[0]);
        assert!(line.contains("CAP_NET_ADMIN is missing"), "{line}");
    }
}
