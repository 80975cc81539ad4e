use serde_json::{Value, json};

use super::*;

fn resolver(spec: Value, host_searches: &[&str]) -> Resolver {
    let mut builder = World::builder();
    builder.add(json!([
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart"}, "spec": spec},
        {"kind": "Service", "metadata": {"namespace": "kube-system", "name": "kube-dns"},
         "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 53, "protocol": "UDP"}]}}]));
    let world = builder.build();
    let pod = pod_of(&world, "shop", "cart").expect("the Pod");
    let host_searches: Vec<String> = host_searches.iter().map(|text| (*text).to_owned()).collect();
    Resolver::of_pod(&world, pod, "cluster.local", &host_searches)
}

#[test]
fn search_list_begins_in_the_namespace_and_ends_with_the_host() {
    let found = resolver(json!({}), &["example.com."]);
    assert_eq!(found.name_servers, NameServers::Cluster);
    let expected = [
        "shop.svc.cluster.local",
        "svc.cluster.local",
        "cluster.local",
        "example.com",
    ];
    assert_eq!(found.searches, expected);
    let candidates = found.candidates("web.pay");
    assert_eq!(candidates[0], "web.pay.shop.svc.cluster.local");
    assert_eq!(candidates[3..], ["web.pay.example.com", "web.pay"]);
}

#[test]
fn names_with_ndots_dots_are_tried_alone_first() {
    let found = resolver(
        json!({"dnsConfig": {"options": [{"name": "ndots", "value": "2"}]}}),
        &[],
    );
    assert_eq!(found.candidates("web.shop.svc")[0], "web.shop.svc");
    assert_eq!(found.candidates("web.shop")[0], "web.shop.shop.svc.cluster.local");
    assert_eq!(found.candidates("web.shop."), ["web.shop"]);
}

#[test]
fn policy_selects_the_servers() {
    let servers = |spec: Value| resolver(spec, &[]).name_servers;
    for (spec, expected) in [
        (json!({"dnsPolicy": "ClusterFirst"}), NameServers::Cluster),
        (json!({"dnsPolicy": "Default"}), NameServers::Outside),
        (json!({"hostNetwork": true}), NameServers::Outside),
        (
            json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}),
            NameServers::Cluster,
        ),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.0.10"]}}),
            NameServers::Cluster,
        ),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["169.254.20.10"]}}),
            NameServers::Cluster,
        ),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53", "10.96.0.10"]}}),
            NameServers::Outside,
        ),
        (json!({"dnsPolicy": "None"}), NameServers::Outside),
    ] {
        assert_eq!(servers(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn own_configuration_is_added() {
    let spec = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.0.10"],
        "searches": ["pay.svc.cluster.local.", "pay.svc.cluster.local"]}});
    let found = resolver(spec, &["example.com"]);
    assert_eq!(found.searches, ["pay.svc.cluster.local"]);
    assert_eq!(found.ndots, NDOTS_DEFAULT);
}

#[test]
fn long_search_lists_are_cut() {
    let many: Vec<String> = (0..40)
        .map(|number| format!("domain-{number}.example.com"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(resolver(json!({}), &many).searches.len(), SEARCHES_MAX);
    let long = "a.".repeat(120);
    let long: Vec<String> = (0..20).map(|number| format!("{number}{long}example")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let searches = resolver(json!({}), &long).searches;
    assert!(
        searches.join(" ").len() <= SEARCH_CHARACTERS_MAX,
        "{}",
        searches.len()
    );
}

#[test]
fn host_aliases_precede_dns() {
    let mut builder = World::builder();
    builder.add(
        json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart"},
        "spec": {"hostAliases": [{"ip": "192.0.2.7", "hostnames": ["web"]}]}}),
    );
    let world = builder.build();
    let pod = pod_of(&world, "shop", "cart").expect("the Pod");
    let expected = Some((
        "192.0.2.7".parse().expect("an address"),
        "spec.hostAliases[0]".to_owned(),
    ));
    assert_eq!(host_alias(pod, "web"), expected);
    assert_eq!(host_alias(pod, "web.shop"), None);
}
