//! Deletion of ServiceCIDRs with and without allocated cluster IPs.

use serde_json::{Value, json};

use crate::driver::{Driver, condition};

const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

fn has_finalizer(cidr: Option<&Value>) -> bool {
    cidr.is_some_and(|cidr| cidr["metadata"]["finalizers"] == json!([FINALIZER]))
}

/// CIDR-09: the finalizer and its removal.
#[test]
fn range_in_use_is_deleted_after_its_last_address() {
    let cluster = Driver::start(&[]);
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
                      "metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}});
    cluster.create(CIDRS, &cidr);
    let path = format!("{CIDRS}/more");
    cluster.wait_until("a ready range", &path, |cidr| {
        has_finalizer(cidr) && condition(cidr, "Ready") == "True"
    });
    cluster.wait_until("the default range", &format!("{CIDRS}/kubernetes"), has_finalizer);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
                         "spec": {"clusterIP": "10.200.0.7", "ports": [{"port": 80}]}});
    cluster.create(SERVICES, &service);
    cluster.delete(&path, &json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
    cluster.wait_until("a terminating range", &path, |cidr| {
        condition(cidr, "Ready") == "False"
    });
    let waiting = cluster.get(&path).expect("the range");
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "Terminating");
    cluster.delete(
        &format!("{SERVICES}/a"),
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    );
    cluster.wait_until("deletion of the range", &path, |cidr| cidr.is_none());
}
