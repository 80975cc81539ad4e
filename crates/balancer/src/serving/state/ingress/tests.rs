use api::object::EndpointSlice;
use client::ClientError;
use serde_json::{Value, json};

use super::*;
use crate::serving::Buckets;
use crate::serving::secret::Secret;
use crate::serving::state::{NodeProperties, OwnedAddresses};

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("object")
}

fn class_key() -> ObjectKey {
    ObjectKey::new("kube-system", "ingress-portolan")
}

fn class_service() -> Service {
    read(json!({
        "metadata": {"namespace": "kube-system", "name": "ingress-portolan",
                     "ownerReferences": [{"kind": "IngressClass", "name": "portolan", "uid": "1"}]},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "portolan.dev/edge",
                 "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"},
                           {"name": "https", "port": 443, "protocol": "TCP"}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10", "ipMode": "Proxy"}]},
                   "conditions": [{"type": "portolan.dev/AddressAssigned", "status": "True"}]},
    }))
}

fn backend_service(port: Value) -> Service {
    read(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"type": "ClusterIP", "ipFamilies": ["IPv4"], "ports": [port]},
    }))
}

fn slice(address: &str) -> EndpointSlice {
    read(json!({
        "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }))
}

fn ingress(tls: Value) -> Ingress {
    let path = json!({"path": "/", "pathType": "Prefix",
                      "backend": {"service": {"name": "web", "port": {"name": "http"}}}});
    read(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "2"},
        "spec": {"ingressClassName": "portolan", "tls": tls,
                 "rules": [{"host": "shop.test", "http": {"paths": [path]}}]},
    }))
}

/// State with the objects of a class, one Ingress and one Service.
fn state(tls: Value) -> EdgeState {
    let node = NodeProperties {
        name: "node-1".into(),
        has_log_directory: false,
        buckets: Buckets::Unknown,
    };
    let mut state = EdgeState::new(node, OwnedAddresses::All);
    state.service_applied(class_service());
    state.class_applied(read(json!({
        "metadata": {"name": "portolan", "uid": "1"}, "spec": {"controller": "portolan.dev/ingress"},
    })));
    state.target_applied(backend_service(
        json!({"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}),
    ));
    state.slice_applied(slice("10.1.0.1"));
    state.ingress_applied(ingress(tls));
    state
}

fn rebuild(state: &mut EdgeState) -> BTreeSet<ObjectKey> {
    state.renew_ingress_plans();
    state.rebuild()
}

fn class_settings(state: &EdgeState) -> Arc<ServiceSettings> {
    let name = ServiceName {
        namespace: "kube-system".into(),
        name: "ingress-portolan".into(),
    };
    Arc::clone(&state.settings()[&name])
}

fn target_settings(state: &EdgeState) -> Arc<ServiceSettings> {
    let name = target_name(&class_key(), &ObjectKey::new("shop", "web"));
    Arc::clone(&state.settings()[&name])
}

fn events(state: &EdgeState) -> Vec<&'static str> {
    let events = state.ingress_events().flat_map(|(_, events)| events);
    events.map(|event| event.reason).collect()
}

#[test]
fn class_waits_for_its_objects() {
    let mut state = state(json!([]));
    assert!(state.has_classes());
    rebuild(&mut state);
    assert!(state.settings().is_empty());
    state.ingresses_synced();
    rebuild(&mut state);
    let class = class_settings(&state);
    assert_eq!(class.listeners.len(), 1, "HTTPS needs a certificate");
    let routes = class.routes.as_ref().expect("routes");
    let route = routes.find("shop.test", "/x").expect("a route");
    let target = route.target.as_ref().expect("a target");
    assert_eq!(target.to_string(), "shop/web@ingress-portolan:80/tcp");
    let target = target_settings(&state);
    assert!(target.addresses.is_empty());
    assert_eq!(target.listeners[0].backend_protocol, BackendProtocol::Http2);
    assert_eq!(
        target.listeners[0].backends[0].address.to_string(),
        "10.1.0.1:8080"
    );
}

#[test]
fn change_of_endpoints_leaves_the_routes_as_they_are() {
    let mut state = state(json!([]));
    state.ingresses_synced();
    rebuild(&mut state);
    let before = class_settings(&state);
    state.slice_applied(slice("10.1.0.2"));
    assert_eq!(rebuild(&mut state), BTreeSet::from([class_key()]));
    assert!(Arc::ptr_eq(&before, &class_settings(&state)));
    assert_eq!(
        target_settings(&state).listeners[0].backends[0]
            .address
            .to_string(),
        "10.1.0.2:8080"
    );
}

#[test]
fn missing_service_and_port_are_events() {
    let mut state = state(json!([]));
    state.ingresses_synced();
    state.target_applied(backend_service(
        json!({"name": "other", "port": 80, "protocol": "TCP"}),
    ));
    rebuild(&mut state);
    assert_eq!(events(&state), ["BackendNotFound"]);
    let routes = class_settings(&state).routes.clone().expect("routes");
    assert_eq!(routes.find("shop.test", "/").expect("a route").target, None);
    state.target_applied(backend_service(
        json!({"name": "http", "port": 81, "protocol": "TCP"}),
    ));
    rebuild(&mut state);
    assert!(events(&state).is_empty());
    state.target_deleted(&ObjectKey::new("shop", "web"));
    rebuild(&mut state);
    assert_eq!(events(&state), ["BackendNotFound"]);
    assert_eq!(state.settings().len(), 1, "the target is gone");
}

#[test]
fn certificate_of_the_own_namespace_secures_its_hosts() {
    let mut state = state(json!([{"hosts": ["shop.test"], "secretName": "cert"}]));
    state.ingresses_synced();
    rebuild(&mut state);
    assert!(state.settings().is_empty(), "the Secret is unread");
    let key = ObjectKey::new("shop", "cert");
    assert_eq!(state.secrets(), BTreeSet::from([key.clone()]));
    let secret: Secret = read(json!({
        "metadata": {"resourceVersion": "1"}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": "Y2VydA==", "tls.key": "a2V5"},
    }));
    assert!(state.certificates.store(&key, &Ok::<_, ClientError>(secret)));
    state.secret_changed(&key);
    rebuild(&mut state);
    let class = class_settings(&state);
    let Frontend::Https(tls) = &class.listeners[1].frontend else {
        panic!("{:?}", class.listeners)
    };
    assert_eq!(
        tls.hosts,
        Some(BTreeMap::from([("shop.test".into(), "shop/cert".into())]))
    );
    let routes = class.routes.as_ref().expect("routes");
    assert_eq!(routes.redirect("shop.test"), Some(443));
    assert_eq!(routes.redirect("other.test"), None);
}

#[test]
fn class_without_ingresses_or_service_leaves_nothing() {
    let mut state = state(json!([]));
    state.ingresses_synced();
    rebuild(&mut state);
    assert_eq!(state.settings().len(), 2);
    state.ingress_deleted(&ObjectKey::new("shop", "web"));
    rebuild(&mut state);
    assert_eq!(state.settings().len(), 1);
    state.service_deleted(&class_key());
    rebuild(&mut state);
    assert!(state.settings().is_empty());
    assert!(!state.has_classes());
}

#[test]
fn node_addresses_are_served_on_their_node_only() {
    let mut state = state(json!([]));
    state.set_owned(OwnedAddresses::Listed(BTreeSet::new()));
    let mut service = class_service();
    service.status.conditions[0].reason = "NodeAddresses".to_owned();
    state.service_applied(service);
    state.ingresses_synced();
    rebuild(&mut state);
    assert!(!state.has_classes());
    state.set_node_addresses(["192.0.2.10".parse().expect("an address")].into());
    rebuild(&mut state);
    assert_eq!(class_settings(&state).addresses.len(), 1);
    assert!(state.added_addresses().is_empty(), "the node has it anyway");
}
