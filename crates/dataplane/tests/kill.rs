//! A process that is killed at any point of its work leaves the kernel in a state that some plan describes: the next
//! one goes on from there.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use api::object::{EndpointSlice, Service};
use dataplane::Dataplane;
use dataplane::nftables::{NftablesDataplane, Options};
use netlink::nftables::{ElementData, Nftables};
use plan::{Plan, Settings};
use serde_json::json;

/// How often the writer is killed.
const KILLS: u64 = 200;
/// More than go into one transaction of the first load.
const SERVICES: usize = 300;
/// By turns, each Service has so many endpoints.
const ENDPOINTS: [usize; 2] = [2, 5];
/// Says to the writer's test that it is started by the other one, in a network namespace of its own.
const IS_WRITER: &str = "PORTOLAN_TEST_IS_WRITER";

#[test]
fn a_killed_process_leaves_what_some_plan_describes() {
    testbed::in_namespace(|| {
        let mut tables = 0;
        for kill in 0..KILLS {
            let mut writer = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
                .env(IS_WRITER, "1")
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // From before the table is there until well into the changes.
            std::thread::sleep(Duration::from_micros(500 + 317 * (kill % 120)));
            writer.kill().unwrap();
            writer.wait().unwrap();
            tables += usize::from(check());
            if kill % 8 == 0 {
                clean();
            }
        }
        assert!(tables > 0, "the writer was always killed before it wrote");
        let mut plan = planned();
        let changes = plan.take_changes();
        let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
        assert_eq!(dataplane.apply(&plan, &changes).unwrap().skipped, []);
        assert!(check());
    });
}

/// No test of its own: what the other one starts.
#[test]
fn writes_until_it_is_killed() {
    if std::env::var_os(IS_WRITER).is_none() {
        return;
    }
    let mut plan = planned();
    let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
    for turn in 0.. {
        let changes = plan.take_changes();
        dataplane.apply(&plan, &changes).unwrap();
        for number in 0..SERVICES {
            plan.apply_slice(&slice(number, ENDPOINTS[turn % 2]));
        }
    }
}

/// Whether there is a table; every Service in it has as many endpoints as its treatment chooses among.
fn check() -> bool {
    let mut nftables = Nftables::open().unwrap();
    if nftables.table("portolan").unwrap().is_none() {
        return false;
    }
    let read = |element: netlink::nftables::Element<'_>| {
        let value = match element.data {
            Some(ElementData::Value(value)) => value.to_vec(),
            Some(ElementData::Verdict(verdict)) => format!("{verdict:?}").into_bytes(),
            None => Vec::new(),
        };
        (element.key.to_vec(), value)
    };
    let mut elements = |set| nftables.elements("portolan", set, read).unwrap();
    let treatments: HashMap<_, _> = elements("treatments").into_iter().collect();
    let mut endpoints: HashMap<Vec<u8>, usize> = HashMap::new();
    for (key, _) in elements("cluster-endpoints4") {
        let (service, _) = key.split_at(key.len() - 4);
        *endpoints.entry(service.to_vec()).or_default() += 1;
    }
    for (service, code) in elements("services4") {
        let treatment = String::from_utf8(treatments[&code].clone()).unwrap();
        let count = endpoints.get(&service).copied().unwrap_or_default();
        assert!(
            treatment.contains(&format!("cluster{count}")),
            "{service:?} has {count} endpoints and is treated by {treatment}"
        );
    }
    true
}

fn clean() {
    NftablesDataplane::open(Options::default())
        .unwrap()
        .cleanup()
        .unwrap();
}

fn planned() -> Plan {
    let mut plan = Plan::new(Settings::default());
    for number in 0..SERVICES {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": format!("s{number}")},
            "spec": {"clusterIP": address(96, number), "ports": [{"port": 80}]},
        }))
        .unwrap();
        plan.apply_service(&service);
        plan.apply_slice(&slice(number, ENDPOINTS[0]));
    }
    plan
}

fn slice(number: usize, endpoints: usize) -> EndpointSlice {
    let endpoints: Vec<_> = (0..endpoints)
        .map(|index| json!({"addresses": [address(128 + index, number)]}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": format!("s{number}-1"),
            "labels": {"kubernetes.io/service-name": format!("s{number}")},
        },
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    }))
    .unwrap()
}

fn address(second: usize, number: usize) -> String {
    format!("10.{second}.{}.{}", number / 250, number % 250 + 1)
}
