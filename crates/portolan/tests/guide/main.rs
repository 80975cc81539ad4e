//! Runs the guides of `docs/` as printed: each command on its host, with a comparison of the output.

#[path = "../support/cluster.rs"]
mod cluster;
mod page;
mod real_cluster;
#[path = "../support/test_host.rs"]
mod test_host;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use page::{Block, blocks};
use test_host::TestHost;
use testbed::{Cluster, Topology, in_namespace};

/// User without privileges on every Linux.
const NOBODY: u32 = 65_534;
/// Directory of the sources, where the guide for the guestbook works.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Programs of the images of the guestbook, each with the names under which packages install it.
const GUESTBOOK_PROGRAMS: [(&str, &[&str]); 4] = [
    ("nginx", &["nginx"]),
    ("redis", &["redis-server", "redis-check-rdb"]),
    ("redis-cli", &["redis-cli"]),
    ("busybox", &["busybox"]),
];
/// Directories of programs in the images of the guestbook.
const PROGRAM_DIRECTORIES: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];
/// Directory of the pages.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Page of the guides for hosts without Kubernetes.
const STANDALONE: &str = "standalone/tutorials.md";
/// Page of the guide for an application of several images.
const GUESTBOOK: &str = "standalone/guestbook.md";
/// Page of the guide for Ingresses.
const INGRESS: &str = "ingress.md";
/// Page of the guide for load balancer IPs.
const LOAD_BALANCER: &str = "load-balancer/tutorial.md";
/// Page of the guide for port ranges and ping.
const PORT_RANGES: &str = "port-ranges.md";
/// Page of the guide for Pods that leave with the address of their Service.
const EGRESS: &str = "egress.md";
/// Page of the guide for Services that do not respond.
const DEBUGGING: &str = "debugging.md";
/// Page of the guide for two clusters.
const MULTICLUSTER: &str = "multicluster.md";

#[test]
fn one_host_guide_prints_its_output() {
    in_namespace(|| follow(STANDALONE, "one-host", 1));
}

#[test]
fn two_host_guide_prints_its_output() {
    in_namespace(|| follow(STANDALONE, "two-hosts", 2));
}

/// Runs the guide without privileges also if root runs the tests.
#[test]
fn one_host_guide_prints_its_output_without_root() {
    if !rustix::process::geteuid().is_root() {
        return println!(
            "skipped: one_host_guide_prints_its_output_without_root: the other tests run without root"
        );
    }
    let output = Command::new("/proc/self/exe")
        .args(["--exact", "one_host_guide_prints_its_output", "--nocapture"])
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("the test program");
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}", texts.concat());
    if let Some(line) = texts.concat().lines().find(|line| line.starts_with("skipped: ")) {
        println!("skipped: one_host_guide_prints_its_output_without_root: {line}");
    }
}

#[test]
fn application_tutorial_prints_its_output() {
    in_namespace(|| follow(STANDALONE, "tutorial", 1));
}

#[test]
fn guestbook_guide_prints_its_output() {
    let test = "guestbook_guide_prints_its_output";
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: {test}: the users of its containers need root");
    }
    let is_installed = |name: &str| {
        let mut directories = PROGRAM_DIRECTORIES.iter();
        directories.any(|directory| Path::new(directory).join(name).exists())
    };
    for (program, names) in GUESTBOOK_PROGRAMS {
        if !names.iter().any(|name| is_installed(name)) {
            return println!("skipped: {test}: {program} is not installed");
        }
    }
    in_namespace(|| follow_from(Some(SOURCES), GUESTBOOK, "guestbook", 1));
}

#[test]
fn ingress_guide_prints_its_output() {
    let openssl = Command::new("openssl").arg("version").output();
    if !openssl.is_ok_and(|output| output.status.success()) {
        return println!("skipped: ingress_guide_prints_its_output: openssl is not installed");
    }
    in_namespace(|| follow(INGRESS, "ingress", 1));
}

#[test]
fn load_balancer_tutorial_prints_its_output() {
    in_namespace(|| follow(LOAD_BALANCER, "load-balancer", 1));
}

#[test]
fn port_ranges_guide_prints_its_output() {
    in_namespace(|| follow(PORT_RANGES, "port-ranges", 1));
}

#[test]
fn egress_guide_prints_its_output() {
    in_namespace(|| follow(EGRESS, "egress", 2));
}

#[test]
fn multicluster_guide_prints_its_output() {
    in_namespace(|| follow(MULTICLUSTER, "multicluster", 2));
}

#[test]
fn debugging_guide_prints_its_output() {
    in_namespace(|| follow(DEBUGGING, "debugging", 1));
}

/// Runs a guide of a page on new hosts.
fn follow(page: &str, guide: &str, hosts: usize) {
    follow_from(None, page, guide, hosts);
}

/// Runs a guide of a page on new hosts in a directory; `None` for an empty one.
fn follow_from(directory: Option<&str>, page: &str, guide: &str, hosts: usize) {
    test_host::need_programs();
    let text = std::fs::read_to_string(format!("{PAGES}/{page}")).expect("a page of docs/");
    let blocks = blocks(&text, guide);
    assert!(!blocks.is_empty(), "docs/{page} has no guide {guide}");
    let cluster = Cluster::start(Topology::with_nodes(hosts).expect("a topology")).expect("a cluster");
    let mut hosts = TestHost::all(&cluster);
    if let Some(directory) = directory {
        for host in &mut hosts {
            host.must(&format!("cd '{directory}'"));
        }
    }
    for block in &blocks {
        let Some(host) = hosts.get_mut(block.host) else {
            panic!("line {}: the guide has no host {}", block.line, block.host + 1);
        };
        let printed = run(host, page, block);
        if let Some(name) = &block.name {
            for host in &mut hosts {
                host.must(&format!("{name}='{printed}'"));
            }
        }
    }
    for host in &mut hosts {
        host.end();
    }
}

/// Runs a block, compares its output with the page, and returns the output.
fn run(host: &mut TestHost, page: &str, block: &Block) -> String {
    let printed = host.must(&block.commands);
    if let Some(expected) = &block.prints {
        assert!(
            page::is_like(&printed, expected),
            "docs/{page}, line {}:\n{}\nexpected output:\n{expected}\nactual output:\n{printed}\n{}",
            block.line,
            block.commands,
            host.log_end()
        );
    }
    printed
}
