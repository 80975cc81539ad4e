//! Faults of the node proxy's settings and connections, and of other programs that filter packets.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netlink::nftables::TableFamily;
use serde_json::json;
use testbed::{in_namespace, skip_inside};

use crate::faults::{expect, expect_none, listener};
use crate::support::wait_for;
use crate::world::{NODE, Report, World, objects, record_of};

/// Time until the proxy is without its API server for so long that the doctor reports it, with a reserve.
const OUTDATED_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two checks of the proxy.
const OUTDATED_PERIOD: Duration = Duration::from_secs(5);

#[test]
fn faults_of_proxy_settings_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        let name = format!("--hostname-override={NODE}");
        let faults = [
            (
                ["--hostname-override=node-x", "--cluster-cidr=10.244.0.0/16"],
                "PTL-0039",
            ),
            ([name.as_str(), "--cluster-cidr=10.200.0.0/16"], "PTL-0047"),
            ([name.as_str(), "--cluster-cidr=0.0.0.0/0"], "PTL-0047"),
        ];
        for (flags, code) in faults {
            world.kill_proxy();
            world.start_proxy_with(&flags);
            // Until the new proxy has written its rules, those of the former one differ from its plan.
            wait_for("the finding of the new proxy", || {
                world.doctor(&[]).codes.first().is_some_and(|first| first == code)
            });
            expect(&world.doctor(&[]), code);
        }
        world.kill_proxy();
        world.start_proxy();
        wait_for("the rules of the new proxy", || {
            world.doctor(&[]).codes.is_empty()
        });
        let mut other = listener("127.0.0.1:10299");
        // Arguments after `--` are not flags of this program, and the doctor reads them as those of kube-proxy.
        other.arg0("kube-proxy").args(["--", &name]);
        let other = world.cluster.spawn(NODE, &mut other).expect("a program");
        world.others.push(other.into());
        expect(&world.doctor(&[]), "PTL-0041");
    });
}

/// The proxy keeps its rules while the API server is away. The doctor reads the objects from a file.
#[test]
fn outdated_rules_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        world.stop_api();
        let path = record_of("objects");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects()});
        std::fs::write(&path, list.to_string()).expect("a file");
        let record = record_of(NODE);
        let flags = [
            "node",
            "--node",
            NODE,
            "--from-file",
            &path,
            "--record",
            &record,
            "-o",
            "json",
        ];
        let start = Instant::now();
        let report = loop {
            let report = Report::read(&world.run(&flags), std::path::Path::new(&record));
            if !report.codes.is_empty() || start.elapsed() > OUTDATED_TIMEOUT {
                break report;
            }
            std::thread::sleep(OUTDATED_PERIOD);
        };
        expect(&report, "PTL-0037");
    });
}

/// Runs a program on the node. Returns false if it does not exist or fails.
fn runs(world: &World, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let namespace = &world.node().namespace;
    namespace.start_inside(&mut command).expect("a namespace");
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn faults_of_filters_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        let programs = [
            ("nft", "--version"),
            ("iptables-nft", "-S"),
            ("iptables-legacy", "-S"),
        ];
        if let Some((program, _)) = programs
            .iter()
            .find(|(program, argument)| !runs(&world, program, &[argument]))
        {
            skip_inside(&format!("{program} does not run"));
        }
        let run = |world: &World, program: &str, arguments: &str| {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            assert!(runs(world, program, &arguments), "{program} {arguments:?}");
        };
        run(&world, "iptables-nft", "-P FORWARD DROP");
        expect(&world.doctor(&[]), "PTL-0042");
        run(&world, "iptables-nft", "-P FORWARD ACCEPT");

        run(&world, "nft", "add table inet guard");
        let chain = "add chain inet guard forward { type filter hook forward priority 0; policy drop; }";
        run(&world, "nft", chain);
        expect(&world.doctor(&[]), "PTL-0042");
        run(&world, "nft", "delete table inet guard");
        expect_none(&world.doctor(&[]));

        // A proxy in iptables mode, and rules of iptables-legacy that a former one left.
        world.kill_proxy();
        let deleted = world.nftables(|nftables| nftables.delete_table(TableFamily::Inet, "portolan"));
        assert!(deleted.expect("a deleted table"));
        world.start_proxy_with(&[
            &format!("--hostname-override={NODE}"),
            "--cluster-cidr=10.244.0.0/16",
            "--proxy-mode=iptables",
        ]);
        expect_none(&world.doctor(&[]));
        for variant in ["iptables-legacy", "iptables-nft"] {
            // One of the two has the chain already.
            runs(&world, variant, &["-t", "nat", "-N", "KUBE-SERVICES"]);
        }
        expect(&world.doctor(&[]), "PTL-0042");
    });
}
