//! A process that is killed at any point leaves the kernel in a state that some plan describes. The next process
//! continues from there.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use api::object::{EndpointSlice, Service};
use dataplane::Dataplane;
use dataplane::nftables::{NftablesDataplane, Options};
use netlink::nftables::{ElementData, Nftables};
use plan::{Plan, Settings};
use serde_json::json;

/// Delays before a kill, in rotation: from before the table exists until well into the changes.
const DELAYS: u64 = 120;
/// Number of kills, unless `PORTOLAN_TEST_KILLS` has another number.
const KILLS: u64 = DELAYS;
/// More Services than one transaction of the first load contains.
const SERVICES: usize = 300;
/// Numbers of endpoints that each Service alternates between.
const ENDPOINTS: [usize; 2] = [2, 5];
/// Environment variable that the other test sets when it starts the writer test, in a separate network namespace.
const IS_WRITER: &str = "PORTOLAN_TEST_IS_WRITER";

#[test]
fn killed_process_leaves_state_of_some_plan() {
    testbed::in_namespace(|| {
        let mut tables = 0;
        for kill in 0..kills() {
            let mut writer = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "write_until_killed", "--nocapture"])
                .env(IS_WRITER, "1")
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(500 + 317 * (kill % DELAYS)));
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

fn kills() -> u64 {
    std::env::var("PORTOLAN_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap())
}

/// The process that the other test starts.
#[test]
fn write_until_killed() {
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

/// Returns true if the table exists. Every Service in it has as many endpoints as its verdict chain selects from.
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
    let verdicts: HashMap<_, _> = elements("verdicts").into_iter().collect();
    let mut endpoints: HashMap<Vec<u8>, usize> = HashMap::new();
    for (key, _) in elements("cluster-endpoints4") {
        let (service, _) = key.split_at(key.len() - 4);
        *endpoints.entry(service.to_vec()).or_default() += 1;
    }
    for (service, code) in elements("services4") {
        let verdict = String::from_utf8(verdicts[&code].clone()).unwrap();
        let count = endpoints.get(&service).copied().unwrap_or_default();
        assert!(
            verdict.contains(&format!("cluster{count}")),
            "{service:?} has {count} endpoints and verdict {verdict}"
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
