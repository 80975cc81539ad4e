//! `portolan proxy` with servers of four versions, with the rights of their role `system:node-proxier`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use testbed::{in_namespace, skip_inside};

use crate::Logged;
use crate::driver::Driver;
use crate::filter::Filter;
use crate::support::{free_tcp_port, is_installed, wait_for};
use crate::version::{Rights, Version};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const SERVICE_COUNT: usize = 12;
/// Log messages about missing features of a server.
const NO_FIELD: &str = "field selector rejected by the server";
const NO_CIDRS: &str = "no ServiceCIDRs";

/// An API server with Services, a filter, and a proxy.
struct Cluster {
    driver: Driver,
    filter: Filter,
    proxy: Logged,
}

impl Cluster {
    fn start(version: Version) -> Self {
        if !is_installed("nft", "--version") {
            skip_inside("nft is not installed");
        }
        let driver = Driver::without_controllers();
        create_objects(&driver);
        let filter = Filter::start(&driver.api.kubeconfig(), version);
        let directory = driver.api.directory.path();
        let arguments = [
            "proxy",
            &format!("--master={}", filter.url()),
            "--hostname-override=node-a",
            "--cluster-cidr=10.244.0.0/16",
            "--nodeport-addresses=0.0.0.0/0",
            &format!("--metrics-bind-address=127.0.0.1:{}", free_tcp_port()),
            "--healthz-bind-address=",
        ];
        let proxy = Logged::start(directory, "proxy", &arguments);
        Self {
            driver,
            filter,
            proxy,
        }
    }

    /// Waits until the rules have all addresses of Services and endpoints.
    fn wait_for_rules(&self) {
        let expected = expected_addresses(&self.driver);
        wait_for("rules of all Services", || {
            let rules = ruleset();
            expected.iter().all(|address| has_address(&rules, address))
        });
    }

    fn count_warnings(&self, message: &str) -> usize {
        let warnings = self.proxy.warnings();
        warnings.iter().filter(|line| line.contains(message)).count()
    }
}

/// Creates Services of every kind that a proxy serves and ignores, with two endpoints each.
fn create_objects(driver: &Driver) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}});
    driver.create("/api/v1/nodes", &node);
    for number in 0..SERVICE_COUNT {
        create_service(driver, number);
    }
    let headless = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "headless"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    });
    driver.create(SERVICES, &headless);
    let external = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "external"},
        "spec": {"type": "ExternalName", "externalName": "example.com"},
    });
    driver.create(SERVICES, &external);
}

fn create_service(driver: &Driver, number: usize) {
    let name = format!("web-{number}");
    let kind = ["ClusterIP", "NodePort", "LoadBalancer"][number % 3];
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": kind, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    driver.create(SERVICES, &service);
    let endpoint = |node: usize| json!({"addresses": [format!("10.244.{node}.{}", number + 1)], "conditions": {"ready": true}});
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}], "endpoints": [endpoint(1), endpoint(2)],
    });
    driver.create(SLICES, &slice);
}

/// Addresses of all Services that a proxy serves, and of their endpoints.
fn expected_addresses(driver: &Driver) -> BTreeSet<String> {
    let items = |path: &str| {
        let list = driver.get(path).expect("a list");
        list["items"].as_array().expect("items").clone()
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let cluster_ips = items(SERVICES)
        .into_iter()
        .filter_map(|service| text(&service["spec"]["clusterIP"]));
    let cluster_ips: Vec<String> = cluster_ips.filter(|ip| ip != "None").collect();
    assert!(cluster_ips.len() > SERVICE_COUNT, "and the Service kubernetes");
    let slices = items(SLICES)
        .into_iter()
        .filter(|slice| slice["metadata"]["name"] != "kubernetes");
    let endpoints = slices.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let endpoints = endpoints.filter_map(|endpoint| text(&endpoint["addresses"][0]));
    cluster_ips.into_iter().chain(endpoints).collect()
}

fn ruleset() -> String {
    let output = Command::new("nft")
        .args(["-n", "list", "table", "inet", "portolan"])
        .output()
        .expect("nft");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns true if the text has the whole address, and not only as the beginning of a longer one.
fn has_address(rules: &str, address: &str) -> bool {
    let mut parts = rules.match_indices(address);
    parts.any(|(at, _)| {
        let rest = &rules[at + address.len()..];
        !rest.starts_with(|next: char| next.is_ascii_digit())
    })
}

/// Checks a server of a version: rules are complete, also after a change, and each missing feature is logged once.
fn check(version: Version, warnings_of_field: usize, warnings_of_cidrs: usize) {
    let cluster = Cluster::start(version);
    cluster.wait_for_rules();
    create_service(&cluster.driver, SERVICE_COUNT);
    cluster.wait_for_rules();
    assert!(!ruleset().contains("headless"));
    // A later restart of the server repeats no warning.
    cluster.filter.become_version(version);
    create_service(&cluster.driver, SERVICE_COUNT + 1);
    cluster.wait_for_rules();
    assert_eq!(cluster.count_warnings(NO_FIELD), warnings_of_field);
    assert_eq!(cluster.count_warnings(NO_CIDRS), warnings_of_cidrs);
    let refused: Vec<String> = cluster
        .filter
        .log()
        .into_iter()
        .filter(|(seen, code)| *code == 403 && seen.resource() != "servicecidrs")
        .map(|(seen, _)| format!("{} {}", seen.verb(), seen.path))
        .collect();
    assert_eq!(refused, Vec::<String>::new(), "beyond the rights of the version");
}

#[test]
fn proxy_writes_complete_rules_with_server_1_24() {
    in_namespace(|| {
        check(
            Version {
                minor: 24,
                rights: Rights::NodeProxier,
            },
            1,
            1,
        )
    });
}

/// With the rights of an administrator, the server answers 404.
#[test]
fn proxy_writes_complete_rules_with_server_1_27() {
    in_namespace(|| {
        check(
            Version {
                minor: 27,
                rights: Rights::All,
            },
            1,
            1,
        )
    });
}

#[test]
fn proxy_writes_complete_rules_with_server_1_30() {
    in_namespace(|| {
        check(
            Version {
                minor: 30,
                rights: Rights::NodeProxier,
            },
            1,
            1,
        )
    });
}

/// ServiceCIDRs are read: packets to unassigned cluster IPs are dropped.
#[test]
fn proxy_writes_complete_rules_with_server_1_33() {
    in_namespace(|| {
        let version = Version {
            minor: 33,
            rights: Rights::NodeProxier,
        };
        check(version, 0, 0);
        assert!(ruleset().contains("10.96.0.0/16"), "{}", ruleset());
    });
}

/// ServiceCIDRs are looked for again after a few seconds.
#[test]
fn proxy_notices_an_upgrade_from_1_30_to_1_33() {
    in_namespace(|| {
        let [old, new] = [30, 33].map(|minor| Version {
            minor,
            rights: Rights::NodeProxier,
        });
        let cluster = Cluster::start(old);
        cluster.wait_for_rules();
        assert!(!ruleset().contains("10.96.0.0/16"));
        cluster.filter.become_version(new);
        wait_for("the range of cluster IPs", || ruleset().contains("10.96.0.0/16"));
        create_service(&cluster.driver, SERVICE_COUNT);
        cluster.wait_for_rules();
    });
}

#[test]
fn refused_watches_keep_rules() {
    in_namespace(|| {
        let version = Version {
            minor: 33,
            rights: Rights::NodeProxier,
        };
        let cluster = Cluster::start(version);
        cluster.wait_for_rules();
        cluster.filter.become_version(Version {
            rights: Rights::None,
            ..version
        });
        let is_refused = |resource: &str| {
            let log = cluster.filter.log();
            let refused = log
                .iter()
                .filter(|(seen, code)| *code == 403 && seen.resource() == resource);
            refused.count() >= 2
        };
        wait_for("refused requests", || {
            ["services", "endpointslices", "nodes", "servicecidrs"]
                .into_iter()
                .all(is_refused)
        });
        let rules = ruleset();
        let expected = expected_addresses(&cluster.driver);
        assert!(
            expected.iter().all(|address| has_address(&rules, address)),
            "{rules}"
        );
        assert!(rules.contains("10.96.0.0/16"), "{rules}");
        cluster.filter.become_version(version);
        create_service(&cluster.driver, SERVICE_COUNT);
        cluster.wait_for_rules();
    });
}
