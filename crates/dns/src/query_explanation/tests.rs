use std::sync::Arc;

use api::object::{Pod, Service};

use super::*;
use crate::records::{Index, Settings};
use crate::server::{Policy, SearchList};
use crate::zone::Zone;

fn responder() -> Responder {
    let zone = Name::from_text("cluster.local").expect("a name");
    let index = Index::new(Settings::of(zone));
    index.apply_namespace("ns").expect("applied");
    let mut service = Service::default();
    service.metadata.name = "web".to_owned();
    service.metadata.namespace = "ns".to_owned();
    service.spec.cluster_ip = "10.96.0.1".to_owned();
    index.apply_service(&service).expect("applied");
    let mut pod = Pod::default();
    pod.metadata.namespace = "ns".to_owned();
    pod.metadata.name = "client".to_owned();
    pod.status.pod_ip = "10.244.0.9".to_owned();
    index.apply_pod(&pod).expect("applied");
    index.set_synced();
    let policy = Policy {
        search: Some(SearchList::default()),
        ..Policy::default()
    };
    let zone = Arc::new(Zone::new(Arc::new(index)));
    let forwarder = Forwarder::to(vec!["192.0.2.53:53".parse().expect("an address")]);
    Responder::with_policy(zone, forwarder, policy, Arc::default())
}

fn explanation_of(name: &str, from: Option<&str>) -> String {
    let name = Name::from_text(name).expect("a name");
    let from = from.map(|address| address.parse().expect("an address"));
    explain(&responder(), &name, kind::A, from)
}

#[test]
fn explains_the_source_of_an_answer() {
    let found = explanation_of("web.ns.svc.cluster.local", None);
    for part in [
        "Service ns/web has the cluster IPs [10.96.0.1]",
        "answer: NOERROR",
        "A 10.96.0.1",
    ] {
        assert!(found.contains(part), "{part:?} is missing in\n{found}");
    }
    let missing = explanation_of("nope.other.svc.cluster.local", None);
    for part in [
        "Service other/nope does not exist",
        "namespace other does not exist",
        "answer: NXDOMAIN",
    ] {
        assert!(missing.contains(part), "{part:?} is missing in\n{missing}");
    }
    let outside = explanation_of("example.com", None);
    for part in [
        "cache: no entry",
        "192.0.2.53:53 is healthy",
        "a forwarded query is needed",
    ] {
        assert!(outside.contains(part), "{part:?} is missing in\n{outside}");
    }
}

#[test]
fn suggests_the_full_name_of_a_service() {
    let full = "did you mean web.ns.svc.cluster.local.?";
    for (name, from) in [
        ("web", Some("10.244.0.9")),
        ("web.ns", None),
        ("web.ns.svc", None),
    ] {
        let found = explanation_of(name, from);
        assert!(found.contains(full), "{name}: {found}");
    }
    for name in ["web", "nope.ns", "example.com", "a.b.c.d.example"] {
        let found = explanation_of(name, None);
        assert!(!found.contains("did you mean"), "{name}: {found}");
    }
}

#[test]
fn explains_search_list_of_a_pod() {
    let name = "web.ns.ns.svc.cluster.local";
    let found = explanation_of(name, Some("10.244.0.9"));
    for part in [
        "the client is Pod ns/client; the server tries the names of its search list",
        "CNAME web.ns.svc.cluster.local.",
        "web.ns.svc.cluster.local. 5 A 10.96.0.1",
    ] {
        assert!(found.contains(part), "{part:?} is missing in\n{found}");
    }
    assert!(
        explanation_of(name, Some("10.244.0.10")).contains("answer: NXDOMAIN"),
        "no Pod of ours"
    );
}
