use super::*;

#[test]
fn what_is_published_is_what_is_read() {
    let info = ClusterInfo {
        server: "https://192.0.2.1:6443".to_owned(),
        authority: "-----BEGIN CERTIFICATE-----\n…".to_owned(),
        settings: Some(ClusterSettings {
            cluster_cidrs: vec!["10.244.0.0/16".parse().expect("a range")],
            cluster_dns: vec!["10.96.0.10".parse().expect("an address")],
            cluster_domain: "cluster.local".to_owned(),
            network: Network::Vxlan { id: 1, port: 8472 },
            node_lease_duration_seconds: 8,
        }),
    };
    let object = info.object().expect("an object");
    assert_eq!(ClusterInfo::parse(&object).expect("readable"), info);
    let foreign = ClusterInfo {
        settings: None,
        ..info
    };
    assert_eq!(
        ClusterInfo::parse(&foreign.object().expect("an object")).expect("readable"),
        foreign
    );
    assert!(ClusterInfo::parse(&json!({"data": {}})).is_err());
}
