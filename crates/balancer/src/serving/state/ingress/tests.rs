use api::object::EndpointSlice;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::ClientError;
use edge::settings::{BackendProtocol, Policy, ServiceName, Stickiness, Tls};
use serde_json::{Value, json};

use super::*;
use crate::serving::AllowedBuckets;
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
        buckets: AllowedBuckets::Unknown,
    };
    let mut state = EdgeState::new(node, OwnedAddresses::All);
    state.apply_service(class_service());
    state.apply_class(read(json!({
        "metadata": {"name": "portolan", "uid": "1"}, "spec": {"controller": "portolan.dev/ingress"},
    })));
    state.apply_target(backend_service(
        json!({"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}),
    ));
    state.apply_slice(slice("10.1.0.1"));
    state.apply_ingress(ingress(tls));
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
    state.apply_slice(slice("10.1.0.2"));
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
    state.apply_target(backend_service(
        json!({"name": "other", "port": 80, "protocol": "TCP"}),
    ));
    rebuild(&mut state);
    assert_eq!(events(&state), ["BackendNotFound"]);
    let routes = class_settings(&state).routes.clone().expect("routes");
    assert_eq!(routes.find("shop.test", "/").expect("a route").target, None);
    state.apply_target(backend_service(
        json!({"name": "http", "port": 81, "protocol": "TCP"}),
    ));
    rebuild(&mut state);
    assert!(events(&state).is_empty());
    state.remove_target(&ObjectKey::new("shop", "web"));
    rebuild(&mut state);
    assert_eq!(events(&state), ["BackendNotFound"]);
    assert_eq!(state.settings().len(), 1, "the target was removed");
}

/// Reads the Secret `cert` of a namespace with this certificate and key.
fn read_secret(state: &mut EdgeState, namespace: &str, version: &str, chain: &str, key: &str) {
    let data = json!({"tls.crt": STANDARD.encode(chain), "tls.key": STANDARD.encode(key)});
    read_data(state, &ObjectKey::new(namespace, "cert"), version, data);
}

/// Reads a Secret for TLS with this data.
fn read_data(state: &mut EdgeState, name: &ObjectKey, version: &str, data: Value) {
    let secret: Secret = read(json!({
        "metadata": {"resourceVersion": version}, "type": "kubernetes.io/tls", "data": data,
    }));
    assert!(state.certificates.store(name, &Ok::<_, ClientError>(secret)));
    state.secret_changed(name);
}

/// Ingress of another namespace whose host names a Secret.
fn ingress_of_other(secret: &str) -> Ingress {
    let mut other = ingress(json!([{"secretName": secret}]));
    other.metadata.namespace = "other".to_owned();
    other.spec.rules[0].host = "other.test".to_owned();
    other
}

fn secrets(state: &EdgeState) -> Vec<String> {
    state.secrets().keys().map(ObjectKey::to_string).collect()
}

fn pair(host: &str) -> (String, String) {
    let pair = rcgen::generate_simple_self_signed([host.to_owned()]).expect("a certificate");
    (pair.cert.pem(), pair.signing_key.serialize_pem())
}

fn tls_of_class(state: &EdgeState) -> Tls {
    let class = class_settings(state);
    let Frontend::Https(tls) = &class.listeners[1].frontend else {
        panic!("{:?}", class.listeners)
    };
    tls.clone()
}

#[test]
fn certificate_of_the_own_namespace_secures_its_hosts() {
    let mut state = state(json!([{"hosts": ["shop.test"], "secretName": "cert"}]));
    state.ingresses_synced();
    rebuild(&mut state);
    assert!(state.settings().is_empty(), "the Secret is unread");
    assert!(state.has_pending());
    assert_eq!(secrets(&state), ["shop/cert"]);
    let (chain, key) = pair("shop.test");
    read_secret(&mut state, "shop", "1", &chain, &key);
    rebuild(&mut state);
    assert!(!state.has_pending());
    assert_eq!(
        tls_of_class(&state).hosts,
        Some(BTreeMap::from([("shop.test".into(), Some("shop/cert".into()))]))
    );
    let class = class_settings(&state);
    let routes = class.routes.as_ref().expect("routes");
    assert_eq!(routes.redirect("shop.test"), Some(443));
    assert_eq!(routes.redirect("other.test"), None);
}

#[test]
fn class_whose_ingresses_are_read_late_waits_for_their_secrets() {
    let mut state = state(json!([{"hosts": ["shop.test"], "secretName": "cert"}]));
    rebuild(&mut state);
    assert!(state.has_pending(), "the Ingresses are not complete");
    state.ingresses_synced();
    rebuild(&mut state);
    assert!(state.settings().is_empty(), "the Secret is unread");
    let (chain, key) = pair("shop.test");
    read_secret(&mut state, "shop", "1", &chain, &key);
    rebuild(&mut state);
    let routes = class_settings(&state).routes.clone().expect("routes");
    assert!(routes.find("shop.test", "/").is_some());
    assert!(!state.has_pending());
}

#[test]
fn secrets_that_a_namespace_names_later_delay_no_host_of_another() {
    let mut state = state(json!([{"hosts": ["shop.test"], "secretName": "cert"}]));
    state.apply_ingress(ingress_of_other("first"));
    state.ingresses_synced();
    rebuild(&mut state);
    assert!(state.settings().is_empty(), "both Secrets are unread");
    state.apply_ingress(ingress_of_other("second"));
    rebuild(&mut state);
    let (chain, key) = pair("shop.test");
    read_secret(&mut state, "shop", "1", &chain, &key);
    rebuild(&mut state);
    let routes = class_settings(&state).routes.clone().expect("routes");
    assert!(routes.find("shop.test", "/").is_some());
    assert!(routes.find("other.test", "/").is_none(), "its Secret is unread");
    assert!(state.has_pending());
    read_data(&mut state, &ObjectKey::new("other", "second"), "1", json!({}));
    rebuild(&mut state);
    let routes = class_settings(&state).routes.clone().expect("routes");
    assert!(routes.find("other.test", "/").is_some());
    assert!(!state.has_pending());
}

#[test]
fn host_keeps_its_certificate_until_its_next_secret_is_read() {
    let tls = |secret: &str| json!([{"hosts": ["shop.test"], "secretName": secret}]);
    let mut state = state(tls("cert"));
    state.ingresses_synced();
    let (chain, key) = pair("shop.test");
    read_secret(&mut state, "shop", "1", &chain, &key);
    rebuild(&mut state);
    state.apply_ingress(ingress_of_other("first"));
    rebuild(&mut state);
    state.apply_ingress(ingress(tls("next")));
    rebuild(&mut state);
    read_data(&mut state, &ObjectKey::new("other", "first"), "1", json!({}));
    rebuild(&mut state);
    let hosts = |secret: &str| -> Option<edge::settings::HostCertificates> {
        Some(BTreeMap::from([("shop.test".into(), Some(secret.into()))]))
    };
    assert_eq!(tls_of_class(&state).hosts, hosts("shop/cert"));
    assert_eq!(secrets(&state), ["other/first", "shop/cert", "shop/next"]);
    let data = json!({"tls.crt": STANDARD.encode(&chain), "tls.key": STANDARD.encode(&key)});
    read_data(&mut state, &ObjectKey::new("shop", "next"), "1", data);
    rebuild(&mut state);
    assert_eq!(tls_of_class(&state).hosts, hosts("shop/next"));
    assert_eq!(secrets(&state), ["other/first", "shop/next"]);
}

#[test]
fn host_keeps_its_former_certificate_or_none_after_an_invalid_one() {
    let mut state = state(json!([{"hosts": ["shop.test"], "secretName": "cert"}]));
    state.ingresses_synced();
    read_secret(&mut state, "shop", "1", "cert", "key");
    rebuild(&mut state);
    assert_eq!(events(&state), ["InvalidCertificate"]);
    let class = class_settings(&state);
    assert_eq!(class.listeners.len(), 1);
    let routes = class.routes.as_ref().expect("routes");
    assert_eq!(routes.redirect("shop.test"), None, "no certificate");
    let (chain, key) = pair("shop.test");
    read_secret(&mut state, "shop", "2", &chain, &key);
    rebuild(&mut state);
    assert!(events(&state).is_empty());
    let former = tls_of_class(&state);
    read_secret(&mut state, "shop", "3", &chain, "key");
    rebuild(&mut state);
    assert_eq!(events(&state), ["InvalidCertificate"]);
    assert_eq!(tls_of_class(&state), former);
}

#[test]
fn wildcard_certificate_is_not_for_a_host_of_another_namespace() {
    let mut state = state(json!([]));
    let mut wildcard = ingress(json!([{"secretName": "cert"}]));
    wildcard.metadata.namespace = "other".to_owned();
    wildcard.spec.rules[0].host = "*.test".to_owned();
    state.apply_ingress(wildcard);
    let mut exact = ingress(json!([]));
    exact.metadata.name = "own".to_owned();
    exact.metadata.namespace = "other".to_owned();
    exact.spec.rules[0].host = "own.test".to_owned();
    state.apply_ingress(exact);
    state.ingresses_synced();
    let (chain, key) = pair("*.test");
    read_secret(&mut state, "other", "1", &chain, &key);
    rebuild(&mut state);
    assert_eq!(
        tls_of_class(&state).hosts,
        Some(BTreeMap::from([
            ("*.test".into(), Some("other/cert".into())),
            ("shop.test".into(), None),
        ]))
    );
    let class = class_settings(&state);
    let routes = class.routes.as_ref().expect("routes");
    assert!(routes.have_same_owner("x.test", "own.test"));
    assert!(!routes.have_same_owner("x.test", "shop.test"));
}

#[test]
fn each_service_has_a_cookie_of_its_own() {
    let class = Policy {
        stickiness: Stickiness::Cookie {
            name: "edge".into(),
            max_age: None,
        },
        ..Policy::default()
    };
    let service = backend_service(json!({"name": "http", "port": 80, "protocol": "TCP"}));
    let Stickiness::Cookie { name, .. } = target_policy(&class, &service).stickiness else {
        panic!("no cookie")
    };
    assert_eq!(&*name, "edge-web");
}

#[test]
fn class_without_ingresses_or_service_leaves_nothing() {
    let mut state = state(json!([]));
    state.ingresses_synced();
    rebuild(&mut state);
    assert_eq!(state.settings().len(), 2);
    state.remove_ingress(&ObjectKey::new("shop", "web"));
    rebuild(&mut state);
    assert_eq!(state.settings().len(), 1);
    state.remove_service(&class_key());
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
    state.apply_service(service);
    state.ingresses_synced();
    rebuild(&mut state);
    assert!(!state.has_classes());
    state.set_node_addresses(["192.0.2.10".parse().expect("an address")].into());
    rebuild(&mut state);
    assert_eq!(class_settings(&state).addresses.len(), 1);
    assert!(
        state.added_addresses().is_empty(),
        "the node already has the address"
    );
}
