use super::*;

#[test]
fn published_content_is_parsed_back() {
    let info = ClusterInfo {
        server: "https://192.0.2.1:6443".to_owned(),
        authority: "-----BEGIN CERTIFICATE-----\n…".to_owned(),
        settings: Some(ClusterSettings {
            cluster_cidrs: vec!["10.244.0.0/16".parse().expect("a CIDR")],
            cluster_dns: vec!["10.96.0.10".parse().expect("an address")],
            cluster_domain: "cluster.local".to_owned(),
            clusterset_domain: Some("clusterset.local".to_owned()),
            network: Network::Vxlan { id: 1, port: 8472 },
            node_lease_duration_seconds: 8,
        }),
    };
    let object = info.object().expect("an object");
    assert_eq!(ClusterInfo::parse(&object).expect("valid content"), info);
    let foreign = ClusterInfo {
        settings: None,
        ..info
    };
    let object = foreign.object().expect("an object");
    assert_eq!(ClusterInfo::parse(&object).expect("valid content"), foreign);
}

#[test]
fn rejects_content_without_kubeconfig() {
    let error = ClusterInfo::parse(&json!({"data": {}})).expect_err("no kubeconfig");
    assert!(
        error.to_string().contains("it has no entry kubeconfig"),
        "{error}"
    );
}
