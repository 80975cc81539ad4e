use super::*;
use crate::records::Settings;

#[test]
fn names_have_the_metadata_of_their_service_or_pod() {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    let of = |name: &str| index.metadata(&Name::from_text(name).expect("a name"));
    let service = Metadata {
        kind: "svc",
        namespace: "ns".to_owned(),
        service: Some("web".to_owned()),
        ..Metadata::default()
    };
    assert_eq!(of("Web.ns.svc.cluster.local"), Some(service.clone()));
    let endpoint = Metadata {
        endpoint: Some("db-0".to_owned()),
        ..service.clone()
    };
    assert_eq!(of("db-0.web.ns.svc.cluster.local"), Some(endpoint));
    let port = Metadata {
        port_name: Some("http".to_owned()),
        protocol: Some("tcp".to_owned()),
        ..service
    };
    assert_eq!(of("_http._tcp.web.ns.svc.cluster.local"), Some(port));
    let pod = Metadata {
        kind: "pod",
        namespace: "ns".to_owned(),
        service: Some("10-1-0-7".to_owned()),
        ..Metadata::default()
    };
    assert_eq!(of("10-1-0-7.ns.pod.cluster.local"), Some(pod));
    assert_eq!(of("ns.svc.cluster.local"), None);
    assert_eq!(of("example.com"), None);
}
