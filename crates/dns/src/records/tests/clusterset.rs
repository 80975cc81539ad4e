//! The zone of a set of clusters.

use api::multicluster::{SERVICE_NAME_LABEL, SOURCE_CLUSTER_LABEL};
use api::object::{ImportPort, ServiceImport};

use super::*;

fn set() -> Index {
    let index = Index::new(Settings {
        kind: ZoneKind::ClusterSet,
        pods: PodNames::Disabled,
        ..Settings::of(Name::from_text("clusterset.local").expect("a name"))
    });
    index.apply_namespace("ns").expect("applied");
    index.set_synced();
    index
}

fn import(name: &str, ips: &[&str]) -> ServiceImport {
    let mut import = ServiceImport::default();
    import.metadata.name = name.to_owned();
    import.metadata.namespace = "ns".to_owned();
    import.spec.kind = if ips.is_empty() {
        "Headless"
    } else {
        "ClusterSetIP"
    }
    .to_owned();
    import.spec.ips = ips.iter().map(|ip| (*ip).to_owned()).collect();
    import.spec.ports = vec![ImportPort {
        name: "http".to_owned(),
        port: 80,
        ..ImportPort::default()
    }];
    import
}

/// A slice of a cluster: endpoints with a host name and a last octet each.
fn mirrored(cluster: &str, service: &str, endpoints: &[(&str, u8)]) -> EndpointSlice {
    let octets: Vec<(u8, bool)> = endpoints.iter().map(|(_, last)| (*last, true)).collect();
    let mut slice = slice(&format!("{service}-{cluster}"), "derived", &octets);
    for ((hostname, _), endpoint) in endpoints.iter().zip(&mut slice.endpoints) {
        endpoint.hostname = (!hostname.is_empty()).then(|| (*hostname).into());
    }
    let labels = &mut slice.metadata.labels;
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.to_owned());
    labels.insert(SOURCE_CLUSTER_LABEL.to_owned(), cluster.to_owned());
    slice
}

/// Returns the response to an SRV query as text.
fn locations(index: &Index, name: &str) -> String {
    String::from_utf8_lossy(&response(index, name)).into_owned()
}

/// Returns the response to an SRV query.
fn response(index: &Index, name: &str) -> Vec<u8> {
    let query = Query {
        id: 1,
        flags: 0,
        name: Name::from_text(name).expect("a name"),
        kind: kind::SRV,
        class: CLASS_IN,
        edns: None,
    };
    let mut buffer = vec![0; 4_096];
    let mut reply = Reply::new(&query, &mut buffer, 4_096);
    index.resolve(&mut reply, &mut Scratch::default());
    let length = reply.finish(ResponseCode::NoError);
    buffer.truncate(length);
    buffer
}

#[test]
fn import_has_its_clusterset_ips() {
    let index = set();
    index
        .apply_import(&import("web", &["10.97.0.1", "fd00::1"]))
        .expect("applied");
    index
        .apply_slice(&mirrored("east", "web", &[("pod-1", 1)]))
        .expect("applied");
    let name = "web.ns.svc.clusterset.local";
    let v4 = BTreeSet::from([IpAddr::from([10, 97, 0, 1])]);
    assert_eq!(query(&index, name, kind::A), (NO_ERROR, v4.clone()));
    assert_eq!(query(&index, name, kind::AAAA).1.len(), 1);
    assert_eq!(
        query(&index, &format!("_http._tcp.{name}"), kind::A),
        (NO_ERROR, v4)
    );
    for absent in ["east", "pod-1.east", "10-1-0-1.east", "_other._tcp"] {
        assert_eq!(
            query(&index, &format!("{absent}.{name}"), kind::A).0,
            NO_NAME,
            "{absent}"
        );
    }
    index.remove_service(&ObjectKey::new("ns", "web"));
    assert_eq!(query(&index, name, kind::A).0, NO_NAME);
}

#[test]
fn headless_import_has_its_endpoints_and_their_clusters() {
    let index = set();
    index.apply_import(&import("db", &[])).expect("applied");
    let name = "db.ns.svc.clusterset.local";
    assert_eq!(query(&index, name, kind::A).0, NO_NAME, "no endpoint");
    index
        .apply_slice(&mirrored("east", "db", &[("db-0", 1), ("", 2)]))
        .expect("applied");
    index
        .apply_slice(&mirrored("west", "db", &[("db-0", 3)]))
        .expect("applied");
    assert_eq!(query(&index, name, kind::A), (NO_ERROR, addresses([1, 2, 3])));
    let of = |label: &str| query(&index, &format!("{label}.{name}"), kind::A);
    assert_eq!(of("db-0.east"), (NO_ERROR, addresses([1])));
    assert_eq!(of("DB-0.West"), (NO_ERROR, addresses([3])));
    assert_eq!(of("10-1-0-2.east"), (NO_ERROR, addresses([2])));
    for absent in ["db-0", "east", "db-0.north", "10-1-0-2.west", "a.db-0.east"] {
        assert_eq!(of(absent).0, NO_NAME, "{absent}");
    }
    let located = locations(&index, &format!("_http._tcp.{name}"));
    assert!(
        located.contains("db-0\u{4}east") && located.contains("db-0\u{4}west"),
        "{located:?}"
    );
}

#[test]
fn names_above_the_limit_of_dns_are_left_out() {
    let index = set();
    let long = |letter: &str| letter.repeat(63);
    let (namespace, service, cluster, host) = (long("n"), long("s"), long("c"), long("h"));
    index.apply_namespace(&namespace).expect("applied");
    let mut import = import(&service, &[]);
    import.metadata.namespace.clone_from(&namespace);
    index.apply_import(&import).expect("applied");
    let mut slice = mirrored(&cluster, &service, &[("short", 1), (host.as_str(), 2)]);
    slice.metadata.namespace.clone_from(&namespace);
    index.apply_slice(&slice).expect("applied");
    let response = response(
        &index,
        &format!("_http._tcp.{service}.{namespace}.svc.clusterset.local"),
    );
    let count = |at: usize| u16::from_be_bytes([response[at], response[at + 1]]);
    assert_eq!((count(6), count(10)), (1, 1), "answers and additional records");
    let text = String::from_utf8_lossy(&response);
    assert!(text.contains("short") && !text.contains(&host), "{text:?}");
}

#[test]
fn slices_of_the_cluster_are_not_in_the_set() {
    let index = set();
    index.apply_import(&import("db", &[])).expect("applied");
    index
        .apply_slice(&slice("db-1", "db", &[(1, true)]))
        .expect("applied");
    assert_eq!(query(&index, "db.ns.svc.clusterset.local", kind::A).0, NO_NAME);
}

#[test]
fn names_of_other_zones_are_outside_of_the_set() {
    let index = set();
    index
        .apply_import(&import("web", &["10.97.0.1"]))
        .expect("applied");
    for name in [
        "web.ns.svc.cluster.local",
        "1.0.97.10.in-addr.arpa",
        "example.com",
    ] {
        assert_eq!(query(&index, name, kind::PTR).0, None, "{name}");
    }
    for (name, code) in [
        ("clusterset.local", NO_ERROR),
        ("svc.clusterset.local", NO_ERROR),
        ("ns.svc.clusterset.local", NO_ERROR),
        ("other.svc.clusterset.local", NO_NAME),
        ("pod.clusterset.local", NO_NAME),
        ("dns-version.clusterset.local", NO_NAME),
    ] {
        assert_eq!(query(&index, name, kind::A).0, code, "{name}");
    }
    assert_eq!(
        query(&index, "dns-version.clusterset.local", kind::TXT).0,
        NO_ERROR
    );
}
