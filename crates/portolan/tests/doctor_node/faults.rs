//! Planted faults, and a node without faults.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use ipnet::IpNet;
use netlink::nftables::{BaseChain, Batch, Chain, ChainKind, Change, Element, Hook, Table, TableFamily};
use netlink::route::{Action, Connection, LinkChange, Route};
use rustix::process::Signal;
use serde_json::Value;
use testbed::{RUN_DIRECTORY, in_namespace, write_sysctl};

use crate::LISTEN;
use crate::support::{Component, wait_for};
use crate::world::{NODE, NODE_PORT, Report, SERVICE, TARGET_PORT, World, objects};

/// Portolan's table.
const TABLE: &str = "portolan";
/// Arguments that name the Service.
pub(crate) const OF_SERVICE: [&str; 2] = ["service", SERVICE];

/// Returns the entry of a list of the observation with a field of this value.
pub(crate) fn entry<'o>(observation: &'o Value, part: &str, field: &str, value: &str) -> &'o Value {
    let list = observation[part]
        .as_array()
        .unwrap_or_else(|| panic!("no {part}"));
    let found = list.iter().find(|entry| entry[field] == value);
    found.unwrap_or_else(|| panic!("no {value} in {part}: {list:#?}"))
}

/// Checks that a code is the first finding.
pub(crate) fn expect(report: &Report, code: &str) {
    let first = report.codes.first().map(String::as_str);
    assert_eq!(first, Some(code), "{:#}\n{}", report.findings, report.warnings);
    assert_eq!(report.exit_code, Some(1));
}

pub(crate) fn expect_none(report: &Report) {
    assert_eq!(
        report.codes,
        Vec::<String>::new(),
        "{:#}\n{}",
        report.findings,
        report.warnings
    );
    assert_eq!(report.exit_code, Some(0));
}

/// Starts this program as a listener.
pub(crate) fn listener(address: &str) -> Command {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args(["--exact", "listen_until_killed", "--ignored", "--nocapture"])
        .env(LISTEN, address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
fn node_without_faults_has_no_findings() {
    in_namespace(|| {
        let world = World::start();
        let report = world.doctor(&[]);
        expect_none(&report);
        let observation = &report.observation;
        let proxy = entry(observation, "proxies", "name", "portolan");
        assert_eq!(
            (&proxy["mode"], &proxy["nodeName"]),
            (&"nftables".into(), &NODE.into())
        );
        assert_eq!(
            (&proxy["healthy"], &proxy["secondsBehind"]),
            (&true.into(), &0.into())
        );
        assert_eq!(proxy["clusterCIDRs"][0], "10.244.0.0/16");
        let table = entry(observation, "tables", "name", TABLE);
        for count in ["missing", "changed", "unexpected"] {
            assert_eq!(table[count], 0, "{table:#}");
        }
        let port = entry(observation, "links", "name", "veth1");
        assert_eq!(
            (&port["master"], &port["hairpin"]),
            (&"cni0".into(), &true.into())
        );
        assert_eq!(port["pod"]["name"], "web-1");
        assert_eq!(observation["inspectedPods"].as_array().map(Vec::len), Some(1));
        let of_pod = observation["listeners"].as_array().expect("listeners").iter();
        let of_pod: Vec<&Value> = of_pod.filter(|listener| !listener["pod"].is_null()).collect();
        assert!(
            of_pod.iter().any(|listener| listener["port"] == TARGET_PORT),
            "{of_pod:#?}"
        );
        assert!(observation["probes"].is_null());
        let offset = observation["clockOffsetSeconds"].as_f64().expect("an offset");
        assert!(
            offset.abs() < 30.0,
            "the offset of one clock from itself: {offset}"
        );
        let flows = observation["conntrack"]["flows"].as_array().expect("flows");
        assert!(
            flows.iter().any(|flow| flow["replySourcePort"] == TARGET_PORT),
            "{flows:#?}"
        );
        check_probes(&world);
        check_offline(&world, &report);
        check_without_api(world);
    });
}

/// Probes of a healthy Service are answered.
fn check_probes(world: &World) {
    let report = world.doctor(&OF_SERVICE);
    expect_none(&report);
    let probes = report.observation["probes"].as_array().expect("probes");
    let kinds = ["tcp", "http", "path-mtu"];
    for kind in kinds {
        assert!(
            probes.iter().any(|probe| probe["kind"] == kind),
            "{kind}: {probes:#?}"
        );
    }
    for probe in probes {
        assert_eq!(probe["outcome"], "answered", "{probe:#}");
    }
    let from_pod = probes.iter().filter(|probe| probe["from"] == "pod default/web-1");
    assert!(from_pod.count() >= 2);
    assert!(world.doctor(&["service", SERVICE, "--probe=false"]).observation["probes"].is_null());
}

/// A recorded observation has the same findings elsewhere.
fn check_offline(world: &World, report: &Report) {
    let directory = Path::new(RUN_DIRECTORY);
    let path = |name: &str| directory.join(name).display().to_string();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects()});
    std::fs::write(path("objects.json"), list.to_string()).expect("a file");
    std::fs::write(path("recorded.json"), report.observation.to_string()).expect("a file");
    let flags = [
        "--from-file",
        &path("objects.json"),
        "--from-file",
        &path("recorded.json"),
        "-o",
        "json",
    ];
    let output = world.run(&flags);
    expect_none(&Report::read(&output, Path::new(&path("recorded.json"))));
    let mut changed = report.observation.clone();
    changed["sysctls"]["net.ipv4.ip_forward"] = "0".into();
    std::fs::write(path("recorded.json"), changed.to_string()).expect("a file");
    let output = world.run(&flags);
    expect(
        &Report::read(&output, Path::new(&path("recorded.json"))),
        "PTL-0043",
    );
}

/// Without an API server, the host alone is examined.
fn check_without_api(mut world: World) {
    world.stop_api();
    let report = world.doctor(&[]);
    expect_none(&report);
    assert!(report.warnings.contains("only this host"), "{}", report.warnings);
    assert!(report.observation["links"].is_array());
}

#[test]
fn faults_of_the_kernel_are_found() {
    in_namespace(|| {
        let world = World::start();
        let enter = |work: &(dyn Fn() + Sync)| world.node().enter(work).expect("a namespace");
        enter(&|| write_sysctl("net.ipv4.ip_forward", "0").expect("a sysctl"));
        let report = world.doctor(&[]);
        expect(&report, "PTL-0043");
        assert_eq!(report.observation["sysctls"]["net.ipv4.ip_forward"], "0");
        enter(&|| write_sysctl("net.ipv4.ip_forward", "1").expect("a sysctl"));

        let mut routes = Connection::open_in(&world.node().namespace).expect("a socket");
        let destination: IpNet = "10.244.2.0/25".parse().expect("a range");
        let blackhole = Route::new(destination, Action::Blackhole);
        routes.add_route(&blackhole).expect("a route");
        let report = world.doctor(&[]);
        expect(&report, "PTL-0051");
        let route = entry(&report.observation, "routes", "destination", "10.244.2.0/25");
        assert_eq!(route["type"], "blackhole");
        routes.delete_route(&blackhole).expect("no route");

        let port = routes
            .link_index(&"veth1".parse().expect("a name"))
            .expect("a port");
        let hairpin = |is_on| LinkChange {
            hairpin: Some(is_on),
            ..LinkChange::default()
        };
        routes.change_link(port, &hairpin(false)).expect("a port");
        expect(&world.doctor(&[]), "PTL-0044");
        routes.change_link(port, &hairpin(true)).expect("a port");
        expect_none(&world.doctor(&[]));
    });
}

#[test]
fn faults_of_listeners_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        // The proxy itself listens on 127.0.0.1.
        let own_address = world.node().plan.address.ipv4;
        let target = SocketAddr::from((own_address, NODE_PORT));
        let host_process = target.to_string();
        let process: Component = world
            .cluster
            .spawn(NODE, &mut listener(&host_process))
            .expect("a listener")
            .into();
        wait_for("a listener on the node", || {
            let connects = || std::net::TcpStream::connect(target).is_ok();
            world.node().enter(connects).expect("a namespace")
        });
        expect(&world.doctor(&[]), "PTL-0049");
        drop(process);

        let address = format!("127.0.0.1:{TARGET_PORT}");
        world.start_in_pod(0, &mut listener(&address));
        world.wait_in_pod(0, address.parse().expect("an address"));
        let report = world.doctor(&OF_SERVICE);
        expect(&report, "PTL-0048");
        let listeners = report.observation["listeners"]
            .as_array()
            .expect("listeners")
            .iter();
        let of_pod: Vec<&Value> = listeners
            .filter(|listener| listener["pod"]["name"] == "web-1" && listener["port"] == TARGET_PORT)
            .collect();
        assert_eq!(of_pod.len(), 1);
        assert_eq!(of_pod[0]["address"], "127.0.0.1");
        let probes = report.observation["probes"].as_array().expect("probes").iter();
        let refused: Vec<&Value> = probes.filter(|probe| probe["outcome"] == "refused").collect();
        let endpoint = format!("10.244.1.10:{TARGET_PORT}");
        assert!(
            refused.iter().any(|probe| probe["target"] == *endpoint),
            "{refused:#?}"
        );
    });
}

fn table(name: &str, is_dormant: bool) -> Table {
    Table {
        name: name.to_owned(),
        comment: String::new(),
        is_dormant,
    }
}

#[test]
fn faults_of_the_proxy_and_of_its_rules_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        let mut batch = Batch::of_family(TableFamily::Ipv4, "kube-proxy");
        batch.table(Change::Add, &table("kube-proxy", false), 0);
        let entry_chain = Chain {
            name: "services".to_owned(),
            base: Some(BaseChain {
                kind: ChainKind::Nat,
                hook: Hook::Prerouting,
                priority: -100,
            }),
            comment: String::new(),
        };
        batch.chain(Change::Add, &entry_chain, 0);
        world
            .nftables(|nftables| nftables.commit(batch))
            .expect("a table");
        expect(&world.doctor(&[]), "PTL-0041");
        let deleted = world.nftables(|nftables| nftables.delete_table(TableFamily::Ipv4, "kube-proxy"));
        assert!(deleted.expect("a deleted table"));

        // A stopped proxy repairs nothing and responds to nothing.
        world.signal_proxy(Signal::STOP);
        let mut batch = Batch::new(TABLE, None);
        let key = [10, 96, 0, 77, 6, 0, 0, 0, 0, 80, 0, 0];
        batch
            .elements(Change::Delete, "services4", 0)
            .push(&Element::key(&key));
        batch.flush_chain("services", 0);
        world
            .nftables(|nftables| nftables.commit(batch))
            .expect("changed rules");
        let report = world.doctor(&[]);
        expect(&report, "PTL-0040");
        let found = entry(&report.observation, "tables", "name", TABLE);
        assert_eq!(
            (&found["missing"], &found["changed"]),
            (&1.into(), &1.into()),
            "{found:#}"
        );
        assert!(entry(&report.observation, "proxies", "name", "portolan")["healthy"].is_null());

        let mut batch = Batch::new(TABLE, None);
        batch.table(Change::Add, &table(TABLE, true), 0);
        world
            .nftables(|nftables| nftables.commit(batch))
            .expect("a dormant table");
        let report = world.doctor(&[]);
        expect(&report, "PTL-0040");
        assert_eq!(
            entry(&report.observation, "tables", "name", TABLE)["dormant"],
            true
        );

        let deleted = world.nftables(|nftables| nftables.delete_table(TableFamily::Inet, TABLE));
        assert!(deleted.expect("a deleted table"));
        let report = world.doctor(&[]);
        expect(&report, "PTL-0040");
        let names: Vec<&Value> = report.observation["tables"]
            .as_array()
            .expect("tables")
            .iter()
            .map(|table| &table["name"])
            .collect();
        assert!(!names.contains(&&TABLE.into()), "{names:?}");

        world.kill_proxy();
        let report = world.doctor(&[]);
        expect(&report, "PTL-0039");
        assert_eq!(report.observation["proxies"], serde_json::json!([]));
        world.start_proxy();
        expect_none(&world.doctor(&[]));
    });
}
