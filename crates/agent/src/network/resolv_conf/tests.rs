use serde_json::json;

use super::*;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec})).unwrap()
}

fn cluster() -> ClusterDns {
    ClusterDns {
        servers: vec!["10.96.0.10".parse().unwrap()],
        domain: "cluster.local".to_owned(),
    }
}

fn host() -> ResolvConf {
    ResolvConf::parse("# comment\nnameserver 192.0.2.1\nsearch example.com.\noptions timeout:1\n")
}

#[test]
fn cluster_first_keeps_search_list_of_host() {
    let (conf, warnings) = for_pod(&pod(json!({})), &cluster(), &host());
    assert_eq!(
        conf.render(),
        "search shop.svc.cluster.local svc.cluster.local cluster.local example.com\n\
         nameserver 10.96.0.10\noptions ndots:5\n"
    );
    assert!(warnings.is_empty());
}

#[test]
fn dns_policy_selects_source() {
    let servers = |spec| for_pod(&pod(spec), &cluster(), &host()).0.nameservers;
    assert_eq!(servers(json!({"hostNetwork": true})), ["192.0.2.1"]);
    assert_eq!(
        servers(json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"})),
        ["10.96.0.10"]
    );
    assert_eq!(servers(json!({"dnsPolicy": "Default"})), ["192.0.2.1"]);
    assert!(servers(json!({"dnsPolicy": "None"})).is_empty());
}

#[test]
fn host_resolv_conf_replaces_missing_cluster_dns() {
    let none = ClusterDns::default();
    assert_eq!(for_pod(&pod(json!({})), &none, &host()).0, host());
}

#[test]
fn dns_config_appends_and_overrides_options() {
    let spec = json!({"dnsConfig": {
        "nameservers": ["10.96.0.10", "192.0.2.9"],
        "searches": ["svc.cluster.local", "own.example."],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }});
    let (conf, _) = for_pod(&pod(spec), &cluster(), &host());
    assert_eq!(conf.nameservers, ["10.96.0.10", "192.0.2.9"]);
    assert_eq!(conf.searches.last().unwrap(), "own.example");
    assert_eq!(conf.searches.len(), 5);
    assert_eq!(conf.options, ["ndots:2", "edns0"]);
}

#[test]
fn truncates_at_limits_with_warnings() {
    let searches: Vec<String> = (0..40).map(|number| format!("s{number}.example")).collect();
    let spec = json!({"dnsPolicy": "None", "dnsConfig": {
        "nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"],
        "searches": searches,
    }});
    let (conf, warnings) = for_pod(&pod(spec), &cluster(), &host());
    assert_eq!(
        (conf.nameservers.len(), conf.searches.len(), warnings.len()),
        (3, 32, 2)
    );
    let long: Vec<String> = (0..20)
        .map(|number| format!("{number}{}", "a".repeat(200)))
        .collect();
    let spec = json!({"dnsPolicy": "None", "dnsConfig": {"searches": long}});
    let (conf, warnings) = for_pod(&pod(spec), &cluster(), &host());
    assert!(conf.searches.join(" ").len() <= 2048 && conf.searches.len() > 8);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn kernel_hostname_is_qualified_on_request() {
    let plain = pod(json!({"hostname": "a", "subdomain": "b"}));
    assert_eq!(kernel_hostname(&plain, &cluster()), "a");
    let full = pod(json!({"hostname": "a", "subdomain": "b", "setHostnameAsFQDN": true}));
    assert_eq!(kernel_hostname(&full, &cluster()), "a.b.shop.svc.cluster.local");
    assert_eq!(kernel_hostname(&pod(json!({})), &cluster()), "web-0");
    let overridden = json!({"hostname": "a", "subdomain": "b", "setHostnameAsFQDN": true, "hostnameOverride": "x.example.com"});
    assert_eq!(kernel_hostname(&pod(overridden), &cluster()), "x.example.com");
}
