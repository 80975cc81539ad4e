//! Port ranges of several Services at one address.

use api::object::{EndpointSlice, Service};
use serde_json::json;

use super::*;
use crate::nftables::port::RANGE_BIT;

/// Cluster IP of the second Service, and external IP of the third one.
const ADDRESS: [u8; 4] = [10, 96, 0, 2];

/// Adds a Service with UDP ranges, a port of its own, and one endpoint.
fn put_ranges(plan: &mut Plan, number: usize, external_ip: &str, ranges: &str) {
    let ip = format!("10.96.0.{number}");
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": format!("r{number}"),
            "annotations": {"service.portolan.dev/port-ranges": ranges}},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "externalIPs": [external_ip],
            "ports": [{"name": "sip", "protocol": "UDP", "port": 5_060 + number}]},
    }))
    .unwrap();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": format!("r{number}"),
            "labels": {"kubernetes.io/service-name": format!("r{number}")}},
        "addressType": "IPv4",
        "ports": [{"name": "sip", "protocol": "UDP", "port": 5_060}],
        "endpoints": [{"addresses": [format!("10.244.9.{number}")], "nodeName": "node-b"}],
    }))
    .unwrap();
    plan.apply_service(&service);
    plan.apply_slice(&slice);
}

fn range_plan() -> Plan {
    let mut plan = Plan::new(settings());
    put_ranges(&mut plan, 1, "10.96.0.3", "5062-5999/UDP");
    put_ranges(&mut plan, 2, "203.0.113.9", "11000-11999/UDP");
    // The first Service owns this range at the cluster IP of the third Service, so the third Service has it at its
    // external IP only. It starts with a port of the second Service.
    put_ranges(&mut plan, 3, "10.96.0.2", "5062-5999/UDP");
    plan
}

/// Returns the keys and values of a map of IPv4. [`Map::ServiceOfRange`] has the key of the endpoints for each range.
fn pairs(map: Map) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
    let mut nftables = Nftables::open().unwrap();
    let found = nftables.elements(TABLE, map.name(Family::V4), |element| match element.data {
        Some(ElementData::Value(value)) => (element.key.to_vec(), value.to_vec()),
        _ => panic!("a value for {:?}", element.key),
    });
    found.unwrap().into_iter().collect()
}

#[test]
fn disjoint_ranges_at_one_address_have_endpoints_of_their_own() {
    testbed::in_namespace(|| {
        let mut plan = range_plan();
        let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
        assert_eq!(update(&mut plan, &mut dataplane).skipped, []);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        let of_address: Vec<Vec<u8>> = pairs(Map::ServiceOfRange)
            .into_iter()
            .filter(|(key, _)| key.starts_with(&ADDRESS))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(of_address.len(), 2, "{of_address:?}");
        assert_ne!(of_address[0], of_address[1]);
        let before = dump();
        let mut next = NftablesDataplane::open(Options::default()).unwrap();
        let changes = Changes {
            needs_full_write: true,
            ..Changes::default()
        };
        next.apply(&plan, &changes).unwrap();
        assert_eq!(dump(), before, "the next process keeps the elements");
    });
}

/// The rules serve ranges also if listeners serve Service ports, so a change of the mode keeps the endpoints of clients.
#[test]
fn ranges_keep_their_endpoints_with_local_redirects() {
    testbed::in_namespace(|| {
        let mut plan = range_plan();
        let mut dataplane = NftablesDataplane::open_for_local_redirects(Options::default()).unwrap();
        assert_eq!(update(&mut plan, &mut dataplane).skipped, []);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        let of_ranges = || {
            let mut endpoints = pairs(Map::ClusterEndpoints);
            endpoints.retain(|(key, _)| key[ADDRESS.len()] & RANGE_BIT != 0);
            (pairs(Map::ServiceOfRange), endpoints)
        };
        let before = of_ranges();
        assert!(!before.0.is_empty() && !before.1.is_empty());
        let mut next = NftablesDataplane::open(Options::default()).unwrap();
        let changes = Changes {
            needs_full_write: true,
            ..Changes::default()
        };
        next.apply(&plan, &changes).unwrap();
        assert_eq!(of_ranges(), before);
    });
}

#[test]
fn deleted_elements_of_ranges_are_restored() {
    testbed::in_namespace(|| {
        let mut plan = range_plan();
        let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
        update(&mut plan, &mut dataplane);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        let before = dump();
        // Address, UDP with the bit of ranges, first port, index.
        let frontend: [u8; 12] = [10, 96, 0, 1, 17 | 0x40, 0, 0, 0, 0x13, 0xc6, 0, 0];
        let key = [&frontend[..], &[0; 4]].concat();
        let endpoints = Map::ClusterEndpoints.name(Family::V4);
        tamper(|batch| {
            batch
                .elements(Change::Delete, endpoints, 0)
                .push(&Element::key(&key));
        });
        assert_ne!(dump(), before);
        let changes = read_changes(&mut monitor);
        dataplane.repair_external(&plan, &changes).unwrap();
        assert_eq!(dump(), before);
        let range = |port: u16| {
            let [high, low] = port.to_be_bytes();
            vec![10, 96, 0, 1, 17, 0, 0, 0, high, low, 0, 0]
        };
        let (first, last) = (range(5_062), range(5_999));
        tamper(|batch| {
            let element = Element {
                key_end: Some(&last),
                ..Element::key(&first)
            };
            let ranges = Map::PortRanges.name(Family::V4);
            batch.elements(Change::Delete, ranges, 0).push(&element);
        });
        assert_ne!(dump(), before);
        let changes = read_changes(&mut monitor);
        dataplane.repair_external(&plan, &changes).unwrap();
        assert_eq!(dump(), before);
    });
}
