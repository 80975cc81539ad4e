//! `portolan dns` and the endpoint controllers with a server of the oldest supported version.

use std::process::Command;

use serde_json::json;

use crate::Logged;
use crate::driver::Driver;
use crate::filter::Filter;
use crate::support::{free_dns_port, free_tcp_port, program, wait_for};
use crate::version::{Rights, Version};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

#[test]
fn dns_answers_without_warnings_with_server_1_24() {
    let driver = Driver::without_controllers();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]},
    });
    let created = driver.create(SERVICES, &service);
    let cluster_ip = created["spec"]["clusterIP"].as_str().expect("a cluster IP");
    let version = Version {
        minor: 24,
        rights: Rights::CoreDns,
    };
    let filter = Filter::start(&driver.api.kubeconfig(), version);
    let directory = driver.api.directory.path();
    let kubeconfig = filter.write_kubeconfig(directory);
    let metrics = format!("127.0.0.1:{}", free_tcp_port());
    let dns = Logged::start(
        directory,
        "dns",
        &[
            "dns",
            &format!("--kubeconfig={}", kubeconfig.display()),
            &format!("--listen=127.0.0.1:{}", free_dns_port()),
            &format!("--metrics-bind-address={metrics}"),
            "--health-bind-address=",
            "--ready-bind-address=",
            "--forward=",
        ],
    );
    wait_for("an answer with the cluster IP", || {
        let query = Command::new(program())
            .args([
                "dns",
                "query",
                "web.default.svc.cluster.local",
                "--server",
                &metrics,
            ])
            .output()
            .expect("the binary under test");
        String::from_utf8_lossy(&query.stdout).contains(cluster_ip)
    });
    assert_eq!(dns.warnings(), Vec::<String>::new());
    let refused: Vec<String> = filter
        .log()
        .into_iter()
        .filter(|(_, code)| *code >= 400)
        .map(|(seen, code)| format!("{code} {}", seen.path))
        .collect();
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn endpoint_controllers_write_slices_and_endpoints_with_server_1_24() {
    let driver = Driver::without_controllers();
    let version = Version {
        minor: 24,
        rights: Rights::All,
    };
    let filter = Filter::start(&driver.api.kubeconfig(), version);
    let directory = driver.api.directory.path();
    let kubeconfig = filter.write_kubeconfig(directory);
    let controllers = Logged::start(
        directory,
        "controllers",
        &[
            "controllers",
            &format!("--kubeconfig={}", kubeconfig.display()),
            "--metrics-bind-address=",
            "--controllers=endpointslice-controller,endpoints-controller,endpointslice-mirroring-controller",
        ],
    );
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    driver.create(SERVICES, &service);
    let of_web = format!("{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3Dweb");
    driver.wait_until("an EndpointSlice", &of_web, |list| {
        list.is_some_and(|list| list["items"].as_array().is_some_and(|items| items.len() == 1))
    });
    driver.wait_until(
        "Endpoints",
        "/api/v1/namespaces/default/endpoints/web",
        |endpoints| endpoints.is_some(),
    );
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "manual"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    });
    driver.create(SERVICES, &json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "manual"}, "spec": {"ports": [{"port": 80}]},
    }));
    driver.create("/api/v1/namespaces/default/endpoints", &endpoints);
    let of_manual = format!("{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3Dmanual");
    driver.wait_until("a mirrored EndpointSlice", &of_manual, |list| {
        list.is_some_and(|list| list["items"].as_array().is_some_and(|items| items.len() == 1))
    });
    assert_eq!(controllers.warnings(), Vec::<String>::new());
    let rejected: Vec<String> = filter
        .log()
        .into_iter()
        .filter(|(seen, code)| *code >= 400 && !seen.path.contains("/leases/"))
        .map(|(seen, code)| format!("{code} {} {}", seen.method, seen.path))
        .collect();
    assert_eq!(rejected, Vec::<String>::new());
}
