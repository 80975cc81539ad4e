use explain::World;
use serde_json::json;

use super::*;

const WEB: (&str, &str) = ("shop", "web");

fn cluster(examined: Option<(&str, &str)>) -> Cluster {
    let mut builder = World::builder();
    let slice = |service: &str, namespace: &str, ports: serde_json::Value, endpoints: serde_json::Value| {
        json!({"kind": "EndpointSlice", "metadata": {"name": service, "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4", "ports": ports, "endpoints": endpoints})
    };
    builder.add(json!([
        {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": "10.96.0.7",
            "clusterIPs": ["10.96.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"], "externalIPs": ["192.0.2.50", "198.51.100.1"],
            "ports": [{"name": "http", "port": 80, "nodePort": 30080}, {"name": "s", "port": 443, "appProtocol": "https"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.77"}]}}},
        slice("web", "shop", json!([{"name": "http", "port": 8080}, {"name": "s", "port": 8443}]),
            json!([{"addresses": ["10.244.2.2"], "nodeName": "node-b", "targetRef": {"kind": "Pod", "name": "web-1"}},
                {"addresses": ["10.244.2.3"], "conditions": {"ready": false}}])),
        {"kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"}, "spec": {"clusterIP": "10.96.0.10",
            "clusterIPs": ["10.96.0.10"], "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}},
        slice("kube-dns", "kube-system", json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
            json!([{"addresses": ["10.244.2.9"], "nodeName": "node-b"}])),
        {"kind": "Pod", "metadata": {"name": "cart-1", "namespace": "shop"}, "spec": {"nodeName": "node-a"},
            "status": {"podIP": "10.244.1.5", "podIPs": [{"ip": "10.244.1.5"}]}},
        {"kind": "Pod", "metadata": {"name": "db-1", "namespace": "shop"}, "spec": {"nodeName": "node-c"},
            "status": {"podIP": "10.244.3.5"}},
        {"kind": "Node", "metadata": {"name": "node-a"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
    ]));
    let examined = examined.map(|(namespace, name)| ObjectKey::new(namespace, name));
    Cluster::read(&builder, examined.as_ref())
}

fn jobs(cluster: &Cluster) -> Vec<Job> {
    let links = [Link {
        name: "eth0".to_owned(),
        up: Some(true),
        addresses: Some(vec!["192.0.2.1/24".parse().expect("a network")]),
        ..Link::default()
    }];
    let pod = PodName {
        namespace: "shop".to_owned(),
        name: "cart-1".to_owned(),
    };
    let selection = Selection {
        cluster,
        node_name: "node-a",
        cluster_domain: "cluster.local",
        pods: vec![(pod, 1_450)],
        links: &links,
        ethernet: vec![("eth0".to_owned(), LinkIndex(2), [2, 0, 0, 0, 0, 1])],
    };
    selection.jobs()
}

fn described(jobs: &[Job]) -> Vec<String> {
    let describe = |job: &Job| {
        let bytes = job
            .probe
            .bytes
            .map(|bytes| format!(" {bytes}"))
            .unwrap_or_default();
        format!(
            "{:?} {} {}{bytes}",
            job.probe.kind, job.probe.from, job.probe.target
        )
    };
    jobs.iter().map(describe).collect()
}

#[test]
fn named_service_is_probed_at_all_addresses() {
    let cluster = cluster(Some(WEB));
    let jobs = jobs(&cluster);
    let expected = [
        "Http node 10.244.2.2:8080",
        "Tcp node 10.244.2.2:8080",
        "Tcp node 10.96.0.7:80",
        "Tcp pod shop/cart-1 10.96.0.7:80",
        "Tcp node 192.0.2.77:80",
        "Tcp node 192.0.2.1:30080",
        "Tcp node 10.244.2.2:8443",
        "Tls node 10.244.2.2:8443",
        "Tcp node 10.96.0.7:443",
        "Tcp pod shop/cart-1 10.96.0.7:443",
        "Tcp node 192.0.2.77:443",
        "Dns node web.shop.svc.cluster.local",
        "Dns node web.shop.svc.cluster.local",
        "Arp node 192.0.2.77",
        "Arp node 192.0.2.50",
        "PathMtu pod shop/cart-1 10.244.2.2 1280",
        "PathMtu pod shop/cart-1 10.244.2.2 1450",
    ];
    assert_eq!(described(&jobs), expected);
    let web = jobs.iter().all(|job| {
        let service = job.probe.service.as_ref();
        service.is_some_and(|service| (service.namespace.as_str(), service.name.as_str()) == WEB)
    });
    assert!(web);
}

#[test]
fn many_services_are_probed_briefly() {
    let cluster = cluster(None);
    let expected = [
        "Dns node 10.244.2.9:53",
        "Dns node 10.96.0.10:53",
        "Dns node kube-dns.kube-system.svc.cluster.local",
        "Tcp node 10.244.2.2:8080",
        "Tcp node 10.96.0.7:80",
        "Tcp node 10.244.2.2:8443",
        "Tcp node 10.96.0.7:443",
        "Dns node web.shop.svc.cluster.local",
        "Dns node web.shop.svc.cluster.local",
        "PathMtu pod shop/cart-1 10.244.2.2 1280",
        "PathMtu pod shop/cart-1 10.244.2.2 1450",
        "PathMtu pod shop/cart-1 10.244.3.5 1280",
        "PathMtu pod shop/cart-1 10.244.3.5 1450",
    ];
    assert_eq!(described(&jobs(&cluster)), expected);
}

#[test]
fn services_without_ready_endpoints_are_not_probed_at_their_addresses() {
    let mut cluster = cluster(Some(WEB));
    for slice in &mut cluster.slices {
        slice.endpoints.clear();
    }
    let described = described(&jobs(&cluster));
    assert!(
        described.iter().all(|job| !job.starts_with("Tcp")),
        "{described:?}"
    );
}

#[test]
fn number_of_probes_is_bounded() {
    let mut cluster = cluster(None);
    let service = cluster.services.last().expect("a Service").clone();
    cluster.services = (0..1_000)
        .map(|number| {
            let mut service = service.clone();
            service.metadata.name = format!("web-{number}");
            service
        })
        .chain(cluster.services)
        .collect();
    assert_eq!(jobs(&cluster).len(), JOBS_MAX);
}

#[test]
fn own_addresses_are_not_resolved() {
    let link = |network: &str, up: bool| Link {
        name: "eth0".to_owned(),
        up: Some(up),
        addresses: Some(vec![network.parse().expect("a network")]),
        ..Link::default()
    };
    let target = "192.0.2.7".parse().expect("an address");
    let own = "192.0.2.1".parse().ok();
    assert_eq!(requester(&link("192.0.2.1/24", true), target), own);
    assert_eq!(requester(&link("192.0.2.7/24", true), target), None);
    assert_eq!(requester(&link("192.0.2.1/24", false), target), None);
    assert_eq!(requester(&link("198.51.100.1/24", true), target), None);
    assert_eq!(requester(&link("192.0.2.1/32", true), target), None);
}

/// EndpointSlices of another API server, or of a file, can name any address.
#[test]
fn servers_of_the_host_and_its_cloud_are_not_targets() {
    let endpoints = |addresses: &[&str]| {
        let mut builder = World::builder();
        builder.add(json!([
            {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": "10.96.0.7",
                "clusterIPs": ["10.96.0.7"], "externalIPs": ["169.254.169.254"], "ports": [{"port": 80}]}},
            {"kind": "EndpointSlice", "metadata": {"name": "web", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4", "ports": [{"port": 8080}],
                "endpoints": addresses.iter().map(|address| json!({"addresses": [address]})).collect::<Vec<_>>()},
        ]));
        jobs(&Cluster::read(&builder, Some(&ObjectKey::new("shop", "web"))))
    };
    let special = [
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "::ffff:127.0.0.1",
    ];
    for job in endpoints(&special) {
        let target = &job.probe.target;
        let is_special = special.iter().any(|address| {
            target.contains(&format!("{address}:")) || target.contains(&format!("[{address}]"))
        });
        assert!(!is_special, "{target}");
    }
    let targets: Vec<String> = endpoints(&["10.244.2.2"])
        .into_iter()
        .map(|job| job.probe.target)
        .collect();
    assert!(
        targets.iter().any(|target| target == "10.244.2.2:8080"),
        "{targets:?}"
    );
}
