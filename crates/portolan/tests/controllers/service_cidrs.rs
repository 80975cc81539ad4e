//! ServiceCIDRs are held while cluster IPs depend on them.

use serde_json::{Value, json};

use crate::driver::{Driver, condition};

const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

fn is_held(cidr: Option<&Value>) -> bool {
    cidr.is_some_and(|cidr| cidr["metadata"]["finalizers"] == json!([FINALIZER]))
}

#[test]
fn a_range_in_use_stays_until_its_last_address_is_given_up() {
    let cluster = Driver::start(&[]);
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
                      "metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}});
    cluster.create(CIDRS, &cidr);
    let path = format!("{CIDRS}/more");
    cluster.wait_until("a ready range", &path, |cidr| {
        is_held(cidr) && condition(cidr, "Ready") == "True"
    });
    cluster.wait_until("the default range", &format!("{CIDRS}/kubernetes"), is_held);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
                         "spec": {"clusterIP": "10.200.0.7", "ports": [{"port": 80}]}});
    cluster.create(SERVICES, &service);
    cluster.delete(&path, &json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
    cluster.wait_until("a range that waits", &path, |cidr| {
        condition(cidr, "Ready") == "False"
    });
    let waiting = cluster.get(&path).expect("the range");
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "Terminating");
    cluster.delete(
        &format!("{SERVICES}/a"),
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    );
    cluster.wait_until("the end of the range", &path, |cidr| cidr.is_none());
}
