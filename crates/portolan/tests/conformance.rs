//! Recorded behaviour of the reference components, compared with Portolan over the network, and the Conformance tests of
//! Kubernetes' own suite in a real cluster.

#[path = "support/cluster.rs"]
mod cluster;
mod support;

use std::path::Path;
use std::process::Command;

use support::{Api, TOKEN, conformance, etcd, free_dns_port, has, portolan, run_conformance};

/// Runs the cases of a file against an API server.
fn run_api(api: &Api, file: &str, prefix: &str, known: &str) {
    let mut runner = Command::new("python3");
    runner
        .arg(conformance("run_api.py"))
        .args(["--server", &api.server, "--token", TOKEN, "--prefix", prefix])
        .arg(conformance("api").join(file));
    run_conformance(&mut runner, &api.directory.path().join("results.json"), known);
}

/// Defines a test for each file of cases and each storage engine.
macro_rules! api_cases {
    ($($name:ident: $file:literal, $prefix:literal;)*) => {$(
        mod $name {
            use super::*;

            const KNOWN: &str = include_str!(concat!("known_failures/", $file, ".txt"));
            const FILE: &str = concat!($file, ".json");

            #[test]
            fn responses_equal_recordings_on_sqlite() {
                if has(concat!(stringify!($name), "::responses_equal_recordings_on_sqlite"), "python3", "--version") {
                    run_api(&Api::start(), FILE, $prefix, KNOWN);
                }
            }

            #[test]
            fn responses_equal_recordings_on_etcd() {
                let test = concat!(stringify!($name), "::responses_equal_recordings_on_etcd");
                if has(test, "python3", "--version")
                    && let Some((etcd, _directory)) = etcd(test)
                {
                    run_api(&Api::start_on_etcd(&etcd), FILE, $prefix, KNOWN);
                }
            }
        }
    )*};
}

api_cases! {
    service_create: "service-create", "c";
    service_delete: "service-delete", "d";
    service_update: "service-update", "u";
    machinery: "machinery", "m";
    endpoints_write: "endpoints-write", "e";
}

#[test]
fn controllers_match_recordings() {
    if !has("controllers_match_recordings", "python3", "--version") {
        return;
    }
    let api = Api::start();
    let _controllers = portolan(&[
        "controllers",
        &format!("--kubeconfig={}", api.kubeconfig().display()),
    ]);
    let mut runner = Command::new("python3");
    runner
        .arg(conformance("run_api.py"))
        .args(["--server", &api.server, "--token", TOKEN, "--prefix", "k"])
        .arg(conformance("api/controllers.json"));
    let known = include_str!("known_failures/controllers.txt");
    run_conformance(&mut runner, &api.directory.path().join("results.json"), known);
}

#[test]
fn dns_matches_recordings() {
    if !has("dns_matches_recordings", "python3", "--version") {
        return;
    }
    let api = Api::start();
    let dns = format!("127.0.0.1:{}", free_dns_port());
    // The reference was recorded without a forwarder.
    let _server = portolan(&[
        "dns",
        &format!("--kubeconfig={}", api.kubeconfig().display()),
        &format!("--listen={dns}"),
        "--forward=",
    ]);
    let mut runner = Command::new("python3");
    runner
        .arg(conformance("run_dns.py"))
        .args(["--api", &api.server, "--token", TOKEN, "--dns", &dns])
        .arg(conformance("dns.json"));
    let known = include_str!("known_failures/dns.txt");
    run_conformance(&mut runner, &api.directory.path().join("results.json"), known);
}

#[test]
fn nftables_mode_matches_recordings() {
    let known = include_str!("known_failures/dataplane-nftables.txt");
    run_dataplane("nftables_mode_matches_recordings", "nftables", &[], known);
}

#[test]
fn iptables_mode_matches_recordings() {
    if has("iptables_mode_matches_recordings", "iptables", "--version") {
        let known = include_str!("known_failures/dataplane-iptables.txt");
        run_dataplane("iptables_mode_matches_recordings", "iptables", &[], known);
    }
}

/// Ignores the addresses of clients: in this mode endpoints see the address of the node.
#[test]
fn userspace_mode_matches_recordings() {
    let known = include_str!("known_failures/dataplane-userspace.txt");
    run_dataplane(
        "userspace_mode_matches_recordings",
        "userspace",
        &["--ignore-peers"],
        known,
    );
}

/// Runs the cases of the data plane in a proxy mode. The runner needs root, because it creates namespaces
/// with `ip netns`.
fn run_dataplane(test: &str, mode: &str, flags: &[&str], known: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: root is required");
        return;
    }
    if !has(test, "python3", "--version") || !has(test, "ip", "-V") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let portolan = env!("CARGO_BIN_EXE_portolan");
    let api = format!(
        "'{portolan}' apiserver --listen={{addr}}:{{port}} --data-dir={{dir}}/data \
         --service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112 --write-kubeconfig={{dir}}/admin.conf"
    );
    let proxy = format!(
        "'{portolan}' proxy --kubeconfig={{kubeconfig}} --hostname-override={{node}} --proxy-mode={mode} \
         --cluster-cidr=10.244.0.0/16,fd00:244::/32"
    );
    let mut runner = Command::new("python3");
    runner
        .arg(conformance("run_dataplane.py"))
        .args([
            "--api-cmd",
            &api,
            "--kubeconfig-out",
            "{dir}/admin.conf",
            "--proxy-cmd",
            &proxy,
        ])
        .args(["--mode", mode, "--either"])
        .args(["--prefix", &format!("pt{}-", &mode[..1])])
        .args(flags)
        .arg(conformance("dataplane.json"));
    run_conformance(&mut runner, &directory.path().join("results.json"), known);
}

/// Conformance tests of Services, endpoints and DNS, at least; fewer are a fault of the selection.
const CONFORMANCE_TESTS_MIN: usize = 40;
/// Starts a cluster with Portolan's parts, runs the Conformance tests, and removes the cluster. Its namespaces have
/// their own directory, so those of other clusters stay. Arguments: `tools/e2e`, the binary, and the directory of the
/// results.
const RUN_SUITE: &str = r#"
    mkdir -p /run/netns && mount -t tmpfs namespaces /run/netns || exit
    trap '"$0" down' EXIT
    "$0" up --parts portolan --nodes 2 --portolan "$1" && "$0" run --focus '\[Conformance\]' --results "$2"
"#;

/// Fails if a Conformance test of the suite fails in two of three runs.
#[test]
fn upstream_suite_passes() {
    let test = "upstream_suite_passes";
    let Some(script) = cluster::script_or_skip(test, &[]) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let results = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-c", RUN_SUITE])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/e2e"))
        .arg(env!("CARGO_BIN_EXE_portolan"))
        .arg(results.path())
        .env("PORTOLAN_CLUSTER_SCRIPT", script)
        .env("CLUSTER_DIR", directory.path())
        .env("CLUSTER_PREFIX", "pe")
        .env("CLUSTER_NET", "198.18.19")
        .output()
        .expect("unshare");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
    let passed = text.lines().filter(|line| line.starts_with("passed ")).count();
    assert!(passed >= CONFORMANCE_TESTS_MIN, "{passed} tests passed:\n{text}");
}
