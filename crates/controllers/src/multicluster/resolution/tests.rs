use api::object::{ClientIpConfig, Labels, Protocol, SessionAffinityConfig};

use super::*;
use crate::multicluster::tests::{Source, headless, service};

fn resolution(sources: &[Source]) -> Resolution {
    let exports: Vec<ClusterExport<'_>> = sources
        .iter()
        .map(|source| ClusterExport {
            cluster: &source.id,
            export: source.export.as_ref().expect("an export"),
            service: source.service.as_ref().expect("a Service"),
            slices: Vec::new(),
        })
        .collect();
    resolve(&exports).expect("exports")
}

fn ports(resolution: &Resolution) -> Vec<(&str, u16)> {
    let ports = resolution.spec.ports.iter();
    ports.map(|port| (port.name.as_str(), port.port)).collect()
}

fn pair() -> [Source; 2] {
    [
        Source::exporting("west", 2, &[]),
        Source::exporting("east", 1, &[]),
    ]
}

/// Returns the reasons of conflicts after a change of the Service of the younger export.
fn conflicts_after(change: impl Fn(&mut Service)) -> Vec<&'static str> {
    let mut sources = pair();
    change(sources[0].service.as_mut().expect("a Service"));
    let resolution = resolution(&sources);
    assert_eq!(
        resolution.spec,
        self::resolution(&pair()).spec,
        "the oldest decides"
    );
    for clusters in resolution.conflicts.values() {
        assert_eq!(
            clusters.iter().map(ClusterId::as_str).collect::<Vec<_>>(),
            ["west"]
        );
    }
    resolution
        .conflicts
        .keys()
        .map(|property| property.reason())
        .collect()
}

#[test]
fn equal_exports_have_no_conflict() {
    let resolution = resolution(&pair());
    assert!(resolution.conflicts.is_empty());
    assert_eq!(resolution.oldest.as_str(), "east");
}

#[test]
fn age_then_name_decides() {
    let mut sources = pair();
    sources[0].export.as_mut().unwrap().metadata.creation_timestamp = sources[1]
        .export
        .as_ref()
        .unwrap()
        .metadata
        .creation_timestamp
        .clone();
    assert_eq!(resolution(&sources).oldest.as_str(), "east");
    sources[1].export.as_mut().unwrap().metadata.creation_timestamp = Some("yesterday".to_owned());
    assert_eq!(
        resolution(&sources).oldest.as_str(),
        "west",
        "an invalid time is the youngest"
    );
}

#[test]
fn ports_are_merged() {
    let mut sources = pair();
    sources[1].service = Some(service(&[("http", 80)]));
    sources[0].service = Some(service(&[("http", 80), ("metrics", 9090)]));
    let resolution = resolution(&sources);
    assert_eq!(ports(&resolution), [("http", 80), ("metrics", 9090)]);
    assert!(resolution.conflicts.is_empty());
}

#[test]
fn older_port_wins() {
    for younger in [("http", 8080), ("web", 80), ("", 443)] {
        let mut sources = pair();
        sources[0].service = Some(service(&[younger]));
        let resolution = resolution(&sources);
        assert_eq!(ports(&resolution), [("http", 80)], "{younger:?}");
        let reasons: Vec<_> = resolution
            .conflicts
            .keys()
            .map(|property| property.reason())
            .collect();
        assert_eq!(reasons, ["PortConflict"]);
        assert_eq!(
            resolution.accepted[&sources[0].id],
            AcceptedPorts::Named(BTreeSet::new())
        );
    }
}

#[test]
fn one_number_serves_several_protocols() {
    let mut sources = pair();
    let mut dns = service(&[("dns", 53), ("dns-udp", 53)]);
    dns.spec.ports[1].protocol = Protocol::Udp;
    sources[1].service = Some(dns);
    let resolution = resolution(&sources[1..]);
    assert_eq!(ports(&resolution), [("dns", 53), ("dns-udp", 53)]);
}

#[test]
fn each_difference_is_a_conflict() {
    let affinity = |service: &mut Service| service.spec.session_affinity = "ClientIP".to_owned();
    assert_eq!(conflicts_after(affinity), ["SessionAffinityConflict"]);
    let config = |service: &mut Service| {
        service.spec.session_affinity_config = Some(SessionAffinityConfig {
            client_ip: Some(ClientIpConfig {
                timeout_seconds: Some(60),
            }),
        });
    };
    assert_eq!(conflicts_after(config), ["SessionAffinityConfigConflict"]);
    let policy = |service: &mut Service| service.spec.internal_traffic_policy = Some("Local".to_owned());
    assert_eq!(conflicts_after(policy), ["InternalTrafficPolicyConflict"]);
    let distribution =
        |service: &mut Service| service.spec.traffic_distribution = Some("PreferSameZone".to_owned());
    assert_eq!(conflicts_after(distribution), ["TrafficDistributionConflict"]);
    let families = |service: &mut Service| service.spec.ip_families = vec!["IPv6".to_owned()];
    assert_eq!(conflicts_after(families), ["IPFamilyConflict"]);
    let without_ip = |service: &mut Service| *service = headless(service.clone());
    assert_eq!(conflicts_after(without_ip), ["TypeConflict"]);
}

#[test]
fn implied_values_agree_with_stated_ones() {
    let stated = |service: &mut Service| {
        service.spec.internal_traffic_policy = Some("Cluster".to_owned());
        service.spec.session_affinity = String::new();
    };
    assert_eq!(conflicts_after(stated), Vec::<&str>::new());
}

#[test]
fn only_valid_metadata_of_the_oldest_export_is_imported() {
    let mut sources = pair();
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    sources[1].export.as_mut().unwrap().spec.exported_labels = Labels::from([
        label("team", "web"),
        label("not valid", "1"),
        label("tier", "no spaces allowed"),
        label("multicluster.kubernetes.io/source-cluster", "north"),
        label("app.kubernetes.io/managed-by", "nobody"),
    ]);
    let younger = &mut sources[0].export.as_mut().unwrap().spec;
    younger.exported_annotations = Labels::from([label("note", "younger")]);
    let resolution = resolution(&sources);
    assert_eq!(
        resolution.labels,
        Labels::from([
            label(
                "app.kubernetes.io/managed-by",
                "multicluster-service-controller.portolan.dev"
            ),
            label("team", "web"),
        ])
    );
    assert!(resolution.annotations.is_empty());
    let reasons: Vec<_> = resolution
        .conflicts
        .keys()
        .map(|property| property.reason())
        .collect();
    assert_eq!(reasons, ["AnnotationsConflict", "LabelsConflict"]);
}

#[test]
fn exported_annotations_are_bounded() {
    let mut sources = pair();
    let large = |key: char| (key.to_string(), "x".repeat(40 << 10));
    sources[1].export.as_mut().unwrap().spec.exported_annotations = Labels::from([large('a'), large('b')]);
    assert_eq!(resolution(&sources).annotations.len(), 1);
}
