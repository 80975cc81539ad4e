mod clusterset;
mod srv;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use api::object::{Endpoint as ApiEndpoint, EndpointPort, Protocol, SERVICE_NAME_LABEL, ServicePort};
use proptest::prelude::*;

use super::*;
use crate::wire::{CLASS_IN, Query, RecordValue, Records, Reply, ResponseCode, kind};

fn index() -> Index {
    let cluster_domain = Name::from_text("cluster.local").expect("a name");
    let own_addresses = vec![IpAddr::from([10, 0, 0, 53])];
    let index = Index::new(Settings {
        own_addresses,
        ..Settings::of(cluster_domain)
    });
    index.set_synced();
    index
}

fn service(name: &str, cluster_ip: &str) -> Service {
    let mut service = Service::default();
    service.metadata.name = name.to_owned();
    service.metadata.namespace = "ns".to_owned();
    service.spec.cluster_ip = cluster_ip.to_owned();
    service.spec.ports = vec![ServicePort {
        name: "http".to_owned(),
        port: 80,
        ..ServicePort::default()
    }];
    service
}

/// A slice of `service` with endpoints `(last octet of the address, ready)`.
fn slice(name: &str, service: &str, endpoints: &[(u8, bool)]) -> EndpointSlice {
    let mut slice = EndpointSlice::default();
    slice.metadata.name = name.to_owned();
    slice.metadata.namespace = "ns".to_owned();
    slice
        .metadata
        .labels
        .insert(SERVICE_NAME_LABEL.to_owned(), service.to_owned());
    slice.ports = vec![EndpointPort {
        name: Some("http".to_owned()),
        protocol: Some(Protocol::Tcp),
        port: Some(8080),
        app_protocol: None,
    }];
    slice.endpoints = endpoints
        .iter()
        .map(|(last, ready)| {
            let mut endpoint = ApiEndpoint {
                addresses: vec![format!("10.1.0.{last}").into()],
                ..ApiEndpoint::default()
            };
            endpoint.conditions.ready = Some(*ready);
            endpoint
        })
        .collect();
    slice
}

/// The outcome of a query, and the addresses of its answer.
fn query(index: &Index, name: &str, kind: u16) -> (Option<ResponseCode>, BTreeSet<IpAddr>) {
    let name = Name::from_text(name).expect("a name");
    let query = Query {
        id: 1,
        flags: 0,
        name,
        kind,
        class: CLASS_IN,
        edns: None,
    };
    let mut buffer = vec![0; 65_535];
    let mut reply = Reply::new(&query, &mut buffer, 65_535);
    let resolution = index.resolve(&mut reply, &mut Scratch::default());
    let code = match resolution {
        Resolution::Complete(code) => Some(code),
        Resolution::OutsideZone | Resolution::External(_) => None,
    };
    let length = reply.finish(code.unwrap_or(ResponseCode::NoError));
    let addresses = Records::of(&buffer[..length]).filter_map(|record| match record.value {
        RecordValue::A(address) => Some(IpAddr::from(address)),
        RecordValue::Aaaa(address) => Some(address.into()),
        RecordValue::Cname(_) => None,
    });
    (code, addresses.collect())
}

fn addresses<const N: usize>(last: [u8; N]) -> BTreeSet<IpAddr> {
    last.into_iter()
        .map(|last| IpAddr::from([10, 1, 0, last]))
        .collect()
}

/// The reverse name of an endpoint of [`slice`].
fn reverse(last: u8) -> String {
    format!("{last}.0.1.10.in-addr.arpa")
}

const NO_ERROR: Option<ResponseCode> = Some(ResponseCode::NoError);
const NO_NAME: Option<ResponseCode> = Some(ResponseCode::NameError);

#[test]
fn queries_fail_before_the_first_sync() {
    let settings = Settings {
        own_addresses: Vec::new(),
        ..index().settings.clone()
    };
    let index = Index::new(settings);
    index.apply_service(&service("a", "10.96.0.1")).expect("applied");
    for name in [
        "a.ns.svc.cluster.local",
        "b.ns.svc.cluster.local",
        "cluster.local",
        "1.0.0.10.in-addr.arpa",
    ] {
        assert_eq!(
            query(&index, name, kind::A).0,
            Some(ResponseCode::ServerFailure),
            "{name}"
        );
    }
    assert_eq!(query(&index, "example.com", kind::A).0, None, "others may know");
    index.set_synced();
    assert_eq!(query(&index, "a.ns.svc.cluster.local", kind::A).0, NO_ERROR);
    assert_eq!(query(&index, "b.ns.svc.cluster.local", kind::A).0, NO_NAME);
}

#[test]
fn service_is_added_changed_and_removed() {
    let (index, name) = (index(), "a.ns.svc.cluster.local");
    index.apply_service(&service("a", "10.96.0.1")).expect("applied");
    assert_eq!(
        query(&index, name, kind::A).1,
        BTreeSet::from([IpAddr::from([10, 96, 0, 1])])
    );
    index.apply_service(&service("a", "10.96.0.2")).expect("applied");
    assert_eq!(
        query(&index, name, kind::A).1,
        BTreeSet::from([IpAddr::from([10, 96, 0, 2])])
    );
    assert_eq!(
        query(&index, "1.0.96.10.in-addr.arpa", kind::PTR).0,
        None,
        "the old address belongs to no Service"
    );
    assert_eq!(query(&index, "2.0.96.10.in-addr.arpa", kind::PTR).0, NO_ERROR);
    index.remove_service(&ObjectKey::new("ns", "a"));
    assert_eq!(query(&index, name, kind::A).0, NO_NAME);
    assert_eq!(query(&index, "2.0.96.10.in-addr.arpa", kind::PTR).0, None);
}

#[test]
fn slices_may_precede_their_service_and_overlap() {
    let (index, name) = (index(), "a.ns.svc.cluster.local");
    index
        .apply_slice(&slice("s1", "a", &[(1, true), (2, true)]))
        .expect("applied");
    assert_eq!(query(&index, name, kind::A).0, NO_NAME, "no Service yet");
    index.apply_service(&service("a", "None")).expect("applied");
    assert_eq!(query(&index, name, kind::A).1, addresses([1, 2]));
    index
        .apply_slice(&slice("s2", "a", &[(2, true), (3, true)]))
        .expect("applied");
    assert_eq!(query(&index, name, kind::A).1, addresses([1, 2, 3]));
    index.remove_slice(&ObjectKey::new("ns", "s1"));
    assert_eq!(query(&index, name, kind::A).1, addresses([2, 3]));
    assert_eq!(query(&index, &reverse(1), kind::PTR).0, None);
    assert_eq!(
        query(&index, &reverse(2), kind::PTR).0,
        NO_ERROR,
        "the other slice has it still"
    );
}

#[test]
fn slice_can_change_its_service() {
    let index = index();
    for name in ["a", "b"] {
        index.apply_service(&service(name, "None")).expect("applied");
    }
    index
        .apply_slice(&slice("s", "a", &[(1, true)]))
        .expect("applied");
    index
        .apply_slice(&slice("s", "b", &[(1, true)]))
        .expect("applied");
    assert_eq!(query(&index, "a.ns.svc.cluster.local", kind::A).0, NO_NAME);
    assert_eq!(query(&index, "b.ns.svc.cluster.local", kind::A).1, addresses([1]));
    let mut nobodys = slice("s", "b", &[(1, true)]);
    nobodys.metadata.labels.clear();
    index.apply_slice(&nobodys).expect("applied");
    assert_eq!(query(&index, "b.ns.svc.cluster.local", kind::A).0, NO_NAME);
    assert_eq!(query(&index, &reverse(1), kind::PTR).0, None);
}

#[test]
fn publish_not_ready_addresses_is_respected() {
    let (index, name) = (index(), "a.ns.svc.cluster.local");
    let mut headless = service("a", "None");
    index.apply_service(&headless).expect("applied");
    index
        .apply_slice(&slice("s", "a", &[(1, false)]))
        .expect("applied");
    assert_eq!(query(&index, name, kind::A).0, NO_NAME);
    assert_eq!(query(&index, &reverse(1), kind::PTR).0, None);
    headless.spec.publish_not_ready_addresses = true;
    index.apply_service(&headless).expect("applied");
    assert_eq!(query(&index, name, kind::A).1, addresses([1]));
    assert_eq!(
        query(&index, "10-1-0-1.a.ns.svc.cluster.local", kind::A).1,
        addresses([1])
    );
    assert_eq!(query(&index, &reverse(1), kind::PTR).0, NO_ERROR);
    index.remove_service(&ObjectKey::new("ns", "a"));
    assert_eq!(query(&index, &reverse(1), kind::PTR).0, None);
}

/// An index whose settings are changed by `choose`.
fn index_with(choose: impl FnOnce(&mut Settings)) -> Index {
    let mut settings = Settings::of(Name::from_text("cluster.local").expect("a name"));
    choose(&mut settings);
    let index = Index::new(settings);
    index.set_synced();
    index
}

#[test]
fn service_without_endpoints_can_be_denied() {
    let index = index_with(|settings| settings.ignore_empty_services = true);
    index
        .apply_service(&service("web", "10.96.0.1"))
        .expect("applied");
    let name = "web.ns.svc.cluster.local";
    let denied = (Some(ResponseCode::NameError), addresses([]));
    assert_eq!(query(&index, name, kind::A), denied);
    assert_eq!(
        query(&index, "_http._tcp.web.ns.svc.cluster.local", kind::SRV),
        denied
    );
    index
        .apply_slice(&slice("web-1", "web", &[(1, false)]))
        .expect("applied");
    assert_eq!(query(&index, name, kind::A), denied, "no endpoint is ready");
    index
        .apply_slice(&slice("web-1", "web", &[(1, true)]))
        .expect("applied");
    let cluster_ip = BTreeSet::from([IpAddr::from([10, 96, 0, 1])]);
    assert_eq!(
        query(&index, name, kind::A),
        (Some(ResponseCode::NoError), cluster_ip)
    );
    index.apply_service(&service("peers", "None")).expect("applied");
    assert_eq!(query(&index, "peers.ns.svc.cluster.local", kind::A), denied);
}

#[test]
fn namespaces_that_are_not_served_have_no_names() {
    let index = index_with(|settings| {
        settings.only_known_namespaces = true;
        settings.pods = PodNames::Verified;
    });
    index
        .apply_service(&service("web", "10.96.0.1"))
        .expect("applied");
    index.apply_service(&service("peers", "None")).expect("applied");
    index
        .apply_slice(&slice("peers-1", "peers", &[(7, true)]))
        .expect("applied");
    let mut pod = Pod::default();
    pod.metadata.name = "p".to_owned();
    pod.metadata.namespace = "ns".to_owned();
    pod.status.pod_ip = "10.1.0.7".to_owned();
    index.apply_pod(&pod).expect("applied");
    let outcomes = || {
        [
            ("web.ns.svc.cluster.local", kind::A),
            ("peers.ns.svc.cluster.local", kind::A),
            ("10-1-0-7.peers.ns.svc.cluster.local", kind::A),
            ("10-1-0-7.ns.pod.cluster.local", kind::A),
            ("_http._tcp.web.ns.svc.cluster.local", kind::SRV),
            (&reverse(7), kind::PTR),
        ]
        .map(|(name, kind)| query(&index, name, kind).0)
    };
    let denied = Some(ResponseCode::NameError);
    assert_eq!(outcomes(), [denied, denied, denied, denied, denied, None]);
    let mut records = 0;
    index.for_each_record(|_| records += 1);
    assert_eq!(records, 1, "only the version is transferred");
    index.apply_namespace("ns").expect("applied");
    assert_eq!(outcomes(), [Some(ResponseCode::NoError); 6]);
    index.remove_namespace("ns");
    assert_eq!(outcomes(), [denied, denied, denied, denied, denied, None]);
}

/// As in CoreDNS, the labels that would select a port or an endpoint have no effect.
#[test]
fn labels_before_a_pod_name_have_no_effect() {
    let index = index_with(|_| {});
    index.apply_namespace("ns").expect("applied");
    let of = |prefix: &str| query(&index, &format!("{prefix}10-1-0-7.ns.pod.cluster.local"), kind::A);
    let answered = (Some(ResponseCode::NoError), addresses([7]));
    for prefix in ["", "x.", "_http._tcp."] {
        assert_eq!(of(prefix), answered, "{prefix}");
    }
    assert_eq!(of("a.b.c.").0, Some(ResponseCode::NameError));
}

#[test]
fn pod_names_follow_the_mode() {
    let name = "10-1-0-7.ns.pod.cluster.local";
    let outcome = |pods: PodNames, with_pod: bool| {
        let index = index_with(|settings| settings.pods = pods);
        index.apply_namespace("ns").expect("applied");
        if with_pod {
            let mut pod = Pod::default();
            pod.metadata.name = "p".to_owned();
            pod.metadata.namespace = "ns".to_owned();
            pod.status.pod_ip = "10.1.0.7".to_owned();
            index.apply_pod(&pod).expect("applied");
        }
        let branch = query(&index, "ns.pod.cluster.local", kind::A).0;
        (branch, query(&index, name, kind::A))
    };
    let (exists, denied) = (Some(ResponseCode::NoError), Some(ResponseCode::NameError));
    let answered = (exists, (exists, addresses([7])));
    let nothing = addresses([]);
    for with_pod in [false, true] {
        assert_eq!(
            outcome(PodNames::Disabled, with_pod),
            (denied, (denied, nothing.clone()))
        );
        assert_eq!(outcome(PodNames::Insecure, with_pod), answered);
    }
    assert_eq!(outcome(PodNames::Verified, false), (exists, (denied, nothing)));
    assert_eq!(outcome(PodNames::Verified, true), answered);
}

#[test]
fn external_names_leave_the_zone_and_never_form_circles() {
    let index = index();
    for (name, target) in [
        ("out", "example.com"),
        ("in", "out.ns.svc.cluster.local"),
        ("a", "b.ns.svc.cluster.local"),
        ("b", "a.ns.svc.cluster.local"),
        ("self", "self.ns.svc.cluster.local"),
    ] {
        let mut alias = service(name, "");
        alias.spec.kind = "ExternalName".to_owned();
        alias.spec.external_name = target.to_owned();
        index.apply_service(&alias).expect("applied");
    }
    assert_eq!(query(&index, "out.ns.svc.cluster.local", kind::A).0, None);
    assert_eq!(query(&index, "in.ns.svc.cluster.local", kind::A).0, None);
    for name in ["a", "b", "self"] {
        assert_eq!(
            query(&index, &format!("{name}.ns.svc.cluster.local"), kind::A).0,
            NO_ERROR,
            "{name} ends with no data"
        );
    }
}

#[test]
fn zone_names_its_servers() {
    let index = index();
    assert_eq!(
        query(&index, "ns.dns.cluster.local", kind::A).1,
        BTreeSet::from([IpAddr::from([10, 0, 0, 53])])
    );
    let name_error = Some(ResponseCode::NameError);
    assert_eq!(query(&index, "ns.dns.cluster.local", kind::PTR).0, name_error);
    // Once the server's address is an endpoint of a Service, that Service is the name server.
    index
        .apply_service(&service("kube-dns", "10.96.0.10"))
        .expect("applied");
    let mut dns = slice("s", "kube-dns", &[(1, true)]);
    dns.endpoints[0].addresses = vec!["10.0.0.53".into()];
    index.apply_slice(&dns).expect("applied");
    assert_eq!(
        query(&index, "ns.dns.cluster.local", kind::A).1,
        BTreeSet::from([IpAddr::from([10, 96, 0, 10])])
    );
    assert_eq!(query(&index, "cluster.local", kind::NS).0, NO_ERROR);
}

#[test]
fn zone_transfers_are_refused() {
    assert_eq!(
        query(&index(), "cluster.local", kind::AXFR).0,
        Some(ResponseCode::Refused)
    );
    assert_eq!(
        query(&index(), "in-addr.arpa", kind::IXFR).0,
        Some(ResponseCode::Refused)
    );
}

#[test]
fn reverse_names_are_spelled_in_one_way() {
    let index = index();
    index.apply_service(&service("a", "10.96.0.1")).expect("applied");
    assert_eq!(query(&index, "1.0.96.10.in-addr.arpa", kind::PTR).0, NO_ERROR);
    for name in [
        "01.0.96.10.in-addr.arpa",
        "1.0.96.10.x.in-addr.arpa",
        "0.96.10.in-addr.arpa",
        "256.0.96.10.in-addr.arpa",
    ] {
        assert_eq!(query(&index, name, kind::PTR).0, None, "{name}");
    }
}

#[test]
fn oversized_names_have_no_records() {
    let index = index();
    assert!(
        index
            .apply_service(&service(&"x".repeat(64), "10.96.0.1"))
            .is_err()
    );
    assert!(index.apply_namespace("").is_err());
    let mut odd = slice("s", "a", &[(1, true), (2, true)]);
    odd.endpoints[0].hostname = Some("y".repeat(64).into());
    odd.endpoints[1].addresses = vec!["nonsense".into()];
    index.apply_service(&service("a", "None")).expect("applied");
    index.apply_slice(&odd).expect("applied");
    assert_eq!(
        query(&index, "10-1-0-1.a.ns.svc.cluster.local", kind::A).1,
        addresses([1]),
        "named by its address"
    );
    assert_eq!(query(&index, "a.ns.svc.cluster.local", kind::A).1, addresses([1]));
}

/// One change to two Services with two slices each.
#[derive(Clone, Debug)]
enum Change {
    Service(usize, bool),
    RemoveService(usize),
    Slice(usize, usize, Vec<(u8, bool)>),
    RemoveSlice(usize),
}

const SERVICES: [&str; 2] = ["a", "b"];
const SLICES: [&str; 4] = ["s0", "s1", "s2", "s3"];

fn change() -> impl Strategy<Value = Change> {
    let endpoints = proptest::collection::vec((0..6u8, any::<bool>()), 0..5);
    prop_oneof![
        (0..2usize, any::<bool>()).prop_map(|(service, publish)| Change::Service(service, publish)),
        (0..2usize).prop_map(Change::RemoveService),
        (0..4usize, 0..2usize, endpoints)
            .prop_map(|(slice, service, eps)| Change::Slice(slice, service, eps)),
        (0..4usize).prop_map(Change::RemoveSlice),
    ]
}

/// A model of the zone, without an index.
#[derive(Default)]
struct Fixture {
    publish: BTreeMap<usize, bool>,
    slices: BTreeMap<usize, (usize, Vec<(u8, bool)>)>,
}

impl Fixture {
    fn apply(&mut self, change: &Change, index: &Index) {
        match change {
            Change::Service(number, publish) => {
                let mut headless = service(SERVICES[*number], "None");
                headless.spec.publish_not_ready_addresses = *publish;
                index.apply_service(&headless).expect("applied");
                self.publish.insert(*number, *publish);
            }
            Change::RemoveService(number) => {
                index.remove_service(&ObjectKey::new("ns", SERVICES[*number]));
                self.publish.remove(number);
            }
            Change::Slice(number, of, endpoints) => {
                index
                    .apply_slice(&slice(SLICES[*number], SERVICES[*of], endpoints))
                    .expect("applied");
                self.slices.insert(*number, (*of, endpoints.clone()));
            }
            Change::RemoveSlice(number) => {
                index.remove_slice(&ObjectKey::new("ns", SLICES[*number]));
                self.slices.remove(number);
            }
        }
    }

    fn published(&self, service: usize) -> BTreeSet<u8> {
        let all = self.publish.get(&service).copied().unwrap_or(false);
        let slices = self.slices.values().filter(|(of, _)| *of == service);
        slices
            .flat_map(|(_, endpoints)| endpoints)
            .filter(|(_, ready)| *ready || all)
            .map(|(last, _)| *last)
            .collect()
    }
}

proptest! {
    #[test]
    fn index_equals_the_objects_after_any_changes(changes in proptest::collection::vec(change(), 1..40)) {
        let (index, mut fixture) = (index(), Fixture::default());
        for change in &changes {
            fixture.apply(change, &index);
            for (number, name) in SERVICES.iter().enumerate() {
                let published = fixture.published(number);
                let expected = match (fixture.publish.contains_key(&number), published.is_empty()) {
                    (true, false) => (NO_ERROR, published.iter().map(|last| IpAddr::V4(Ipv4Addr::new(10, 1, 0, *last))).collect()),
                    _ => (NO_NAME, BTreeSet::new()),
                };
                prop_assert_eq!(query(&index, &format!("{name}.ns.svc.cluster.local"), kind::A), expected);
            }
            for last in 0..6 {
                let named = (0..SERVICES.len()).any(|service| fixture.published(service).contains(&last));
                prop_assert_eq!(query(&index, &reverse(last), kind::PTR).0.is_some(), named);
            }
        }
    }
}

#[test]
fn readers_never_see_partial_changes() {
    let index = index();
    index.apply_service(&service("a", "None")).expect("applied");
    let states = [
        slice("s", "a", &[(1, true), (2, true)]),
        slice("s", "a", &[(1, true), (3, true), (4, true)]),
    ];
    index.apply_slice(&states[0]).expect("applied");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..2_000 {
                index.apply_slice(&states[round % 2]).expect("applied");
            }
        });
        while !writer.is_finished() {
            let (code, seen) = query(&index, "a.ns.svc.cluster.local", kind::A);
            assert_eq!(code, NO_ERROR);
            assert!(
                seen == addresses([1, 2]) || seen == addresses([1, 3, 4]),
                "{seen:?}"
            );
            assert_eq!(
                query(&index, &reverse(1), kind::PTR).0,
                NO_ERROR,
                "the address was always an endpoint"
            );
        }
    });
}

#[test]
fn locations_of_several_slices_share_the_weight() {
    let index = index();
    index.apply_service(&service("peers", "None")).expect("applied");
    let mut first = slice("peers-1", "peers", &[(1, true), (2, true)]);
    first.ports.push(EndpointPort {
        name: Some("admin".to_owned()),
        port: Some(9090),
        ..first.ports[0].clone()
    });
    index.apply_slice(&first).expect("applied");
    index
        .apply_slice(&slice("peers-2", "peers", &[(3, true)]))
        .expect("applied");
    let query = Query {
        id: 1,
        flags: 0,
        name: Name::from_text("peers.ns.svc.cluster.local").expect("a name"),
        kind: kind::SRV,
        class: CLASS_IN,
        edns: None,
    };
    let mut buffer = vec![0; 4_096];
    let mut reply = Reply::new(&query, &mut buffer, 4_096);
    index.resolve(&mut reply, &mut Scratch::default());
    let length = reply.finish(ResponseCode::NoError);
    // Type, class and TTL of an SRV record; length, priority and weight follow.
    let head = [0, 33, 0, 1, 0, 0, 0, 5];
    let weights: Vec<u16> = buffer[..length]
        .windows(14)
        .filter(|window| window.starts_with(&head))
        .map(|window| u16::from_be_bytes([window[12], window[13]]))
        .collect();
    assert_eq!(weights, [20; 5]);
}
