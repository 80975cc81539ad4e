use client::ClientError;
use edge::settings::{Frontend, LogDestination, ServiceSettings};
use serde_json::{Value, json};

use super::*;
use crate::serving::secret::{Secret, SecretError};

const ADDRESS: &str = "192.0.2.10";

fn node() -> NodeProperties {
    NodeProperties {
        name: "node-1".into(),
        has_log_directory: true,
        buckets: AllowedBuckets::Unknown,
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("object")
}

fn service(annotations: Value, more: Value) -> Service {
    let mut spec = json!({
        "type": "LoadBalancer", "ipFamilies": ["IPv4"], "loadBalancerClass": annotations::EDGE_CLASS,
        "ports": [{"name": "web", "port": 443, "protocol": "TCP"}],
    });
    for (field, value) in more.as_object().expect("object") {
        spec[field] = value.clone();
    }
    read(json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
        "spec": spec,
        "status": {
            "loadBalancer": {"ingress": [{"ip": ADDRESS, "ipMode": "Proxy"}]},
            "conditions": [{"type": ASSIGNED_CONDITION, "status": "True"}],
        },
    }))
}

fn slice(name: &str, family: &str, endpoints: Value) -> EndpointSlice {
    read(json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": family, "endpoints": endpoints,
        "ports": [{"name": "web", "protocol": "TCP", "port": 8443}],
    }))
}

fn state() -> EdgeState {
    EdgeState::new(node(), OwnedAddresses::All)
}

fn settings(state: &mut EdgeState) -> Option<Arc<ServiceSettings>> {
    state.rebuild();
    state.settings().values().next().cloned()
}

fn key() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

#[test]
fn endpoints_become_backends_with_their_conditions() {
    let mut state = state();
    state.apply_service(service(json!({}), json!({})));
    let endpoints = json!([
        {"addresses": ["10.1.0.1"], "nodeName": "node-1", "zone": "a"},
        {"addresses": ["10.1.0.2"], "nodeName": "node-2", "conditions": {"ready": false, "serving": true, "terminating": true}},
        {"addresses": ["10.1.0.3"], "nodeName": "node-2", "conditions": {"ready": false, "serving": false}},
    ]);
    state.apply_slice(slice("a", "IPv4", endpoints));
    state.apply_slice(slice("b", "IPv6", json!([{"addresses": ["2001:db8::1"]}])));
    let found = settings(&mut state).expect("settings");
    assert_eq!(found.addresses, [ADDRESS.parse::<IpAddr>().expect("address")]);
    let backends: Vec<_> = found.listeners[0]
        .backends
        .iter()
        .map(|one| {
            (
                one.address.to_string(),
                one.is_ready,
                one.is_serving_while_terminating,
            )
        })
        .collect();
    assert_eq!(
        backends,
        [
            ("10.1.0.1:8443".to_owned(), true, false),
            ("10.1.0.2:8443".to_owned(), false, true),
            ("10.1.0.3:8443".to_owned(), false, false),
        ]
    );
    assert_eq!(found.listeners[0].backends[0].zone.as_deref(), Some("a"));
    // Without endpoints of the first family, those of the other are used.
    state.remove_slice(&ObjectKey::new("shop", "a"));
    let found = settings(&mut state).expect("settings");
    assert_eq!(
        found.listeners[0].backends[0].address.to_string(),
        "[2001:db8::1]:8443"
    );
}

#[test]
fn policy_local_selects_endpoints_of_this_node() {
    let mut state = state();
    state.apply_service(service(json!({}), json!({"externalTrafficPolicy": "Local"})));
    let endpoints = json!([
        {"addresses": ["10.1.0.1"], "nodeName": "node-1"},
        {"addresses": ["10.1.0.2"], "nodeName": "node-2"},
    ]);
    state.apply_slice(slice("a", "IPv4", endpoints));
    let found = settings(&mut state).expect("settings");
    assert_eq!(found.listeners[0].backends.len(), 1);
}

#[test]
fn reports_port_ranges_as_not_served() {
    let mut state = state();
    let annotations = json!({"service.portolan.dev/port-ranges": "5060-5160/UDP"});
    state.apply_service(service(annotations, json!({})));
    let found = settings(&mut state).expect("settings");
    assert_eq!(found.listeners.len(), 1);
    assert_eq!(
        state.faults(&key()),
        [
            "annotation service.portolan.dev/port-ranges has no effect at the edge: only the ports of spec.ports are served"
        ]
    );
}

#[test]
fn serves_only_addresses_of_this_node() {
    let address: IpAddr = ADDRESS.parse().expect("address");
    let mut state = EdgeState::new(node(), OwnedAddresses::Listed(Addresses::new()));
    state.apply_service(service(json!({}), json!({})));
    assert!(settings(&mut state).is_none());
    state.set_owned(OwnedAddresses::Listed([address].into()));
    assert!(settings(&mut state).is_some());
    assert_eq!(state.addresses(), [address].into());
    state.set_owned(OwnedAddresses::Listed(Addresses::new()));
    assert!(settings(&mut state).is_none());
    // Node proxies serve mode VIP.
    let mut plain = service(json!({}), json!({}));
    plain.status.load_balancer.ingress[0].ip_mode = Some("VIP".to_owned());
    state.set_owned(OwnedAddresses::All);
    state.apply_service(plain);
    assert!(settings(&mut state).is_none());
    assert!(!state.has_services());
}

#[test]
fn unchanged_settings_stay_the_same_object() {
    let mut state = state();
    state.apply_service(service(json!({}), json!({})));
    let before = settings(&mut state).expect("settings");
    state.apply_service(service(json!({"example.com/else": "x"}), json!({})));
    let after = settings(&mut state).expect("settings");
    assert!(Arc::ptr_eq(&before, &after));
}

fn secret(namespaces: &str, kind: &str) -> Secret {
    read(json!({
        "metadata": {"resourceVersion": "1", "annotations": {"portolan.dev/allowed-namespaces": namespaces}},
        "type": kind,
        "data": {"tls.crt": "YQ==", "tls.key": "Yg=="},
    }))
}

#[test]
fn services_wait_for_the_secrets_of_their_certificates() {
    let of_aws = |value: &str| json!({"service.beta.kubernetes.io/aws-load-balancer-ssl-cert": value});
    let mut state = state();
    state.apply_service(service(
        of_aws("arn:aws:acm:x:1:certificate/own,certs/other"),
        json!({}),
    ));
    let (own, other) = (ObjectKey::new("shop", "own"), ObjectKey::new("certs", "other"));
    let readers = [&own, &other].map(|secret| (secret.clone(), Arc::<str>::from("shop")));
    assert_eq!(state.secrets(), readers.into());
    assert!(settings(&mut state).is_none(), "no Secret is read yet");
    assert!(
        state
            .certificates
            .store(&own, &Ok(secret("", "kubernetes.io/tls")))
    );
    assert!(
        !state
            .certificates
            .store(&own, &Ok(secret("", "kubernetes.io/tls"))),
        "same version"
    );
    assert!(
        state
            .certificates
            .store(&other, &Ok(secret("a, b", "kubernetes.io/tls")))
    );
    let found = settings(&mut state).expect("settings");
    let Frontend::Ssl(tls) = &found.listeners[0].frontend else {
        panic!("{:?}", found.listeners[0].frontend);
    };
    let sources: Vec<&str> = tls.certificates.iter().map(|one| &*one.source).collect();
    assert_eq!(sources, ["shop/own"]);
    assert_eq!(
        state.faults(&key()),
        [
            "Secret certs/other cannot be used from namespace shop: it must exist, and its annotation \
          portolan.dev/allowed-namespaces must name the namespace"
        ]
    );
    state.certificates.retain(|secret| *secret == own);
    state
        .certificates
        .store(&other, &Ok(secret("a, shop", "kubernetes.io/tls")));
    state.secret_changed(&other);
    let found = settings(&mut state).expect("settings");
    assert!(matches!(&found.listeners[0].frontend, Frontend::Ssl(tls) if tls.certificates.len() == 2));
    assert!(state.faults(&key()).is_empty());
}

#[test]
fn services_wait_for_the_secret_of_their_cookies() {
    let mut state = state();
    state.apply_service(service(json!({"portolan.dev/edge-sticky": "cookie"}), json!({})));
    assert!(state.uses_cookies());
    assert!(settings(&mut state).is_none(), "cookies cannot be decoded yet");
    state.set_cookie_secret(CookieSecret::Missing(SecretError::NotFound(ObjectKey::new(
        "kube-system",
        "cookies",
    ))));
    let without = settings(&mut state).expect("settings");
    assert_eq!(
        state.faults(&key()),
        [
            "clients can derive the backend from a sticky-session cookie: expected Secret kube-system/cookies, found \
             none; create it"
        ]
    );
    state.set_cookie_secret(CookieSecret::Present);
    let with = settings(&mut state).expect("settings");
    assert!(state.faults(&key()).is_empty());
    assert!(Arc::ptr_eq(&with, &without), "settings are unchanged");
    // Services without cookies do not wait.
    let mut other = self::state();
    other.apply_service(service(json!({}), json!({})));
    assert!(!other.uses_cookies() && settings(&mut other).is_some());
}

#[test]
fn rejects_secrets_of_another_type() {
    let mut certificates = Certificates::default();
    let key = ObjectKey::new("shop", "own");
    certificates.store(&key, &Ok(secret("", "Opaque")));
    let outcome = certificates.get("shop", &key).expect("read Secret");
    assert_eq!(
        outcome.expect_err("error").to_string(),
        "Secret shop/own: expected type kubernetes.io/tls, found \"Opaque\"; create the Secret again with this type"
    );
}

#[test]
fn errors_for_other_namespaces_do_not_disclose_the_secret() {
    let key = ObjectKey::new("certs", "other");
    let error = |result: &Result<Secret, ClientError>| {
        let mut certificates = Certificates::default();
        certificates.store(&key, result);
        certificates
            .get("shop", &key)
            .expect("read Secret")
            .expect_err("error")
    };
    let empty = read(json!({"metadata": {"resourceVersion": "1"}, "type": "kubernetes.io/tls"}));
    let not_found = ClientError::Status {
        method: http::Method::GET,
        path: String::new(),
        status: read(json!({"code": 404, "reason": "NotFound", "message": "there is none"})),
    };
    let errors = [
        error(&Ok(secret("a", "kubernetes.io/tls"))),
        error(&Ok(secret("", "Opaque"))),
        error(&Ok(empty)),
        error(&Err(not_found)),
    ];
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    // A namespace that the Secret allows sees the reason.
    let mut certificates = Certificates::default();
    certificates.store(&key, &Ok(secret("shop", "Opaque")));
    let error = certificates
        .get("shop", &key)
        .expect("read Secret")
        .expect_err("error");
    assert!(matches!(error, SecretError::WrongType { .. }), "{error}");
}

#[test]
fn serves_no_client_while_a_restriction_is_invalid() {
    let ranges = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let of_class = json!({"loadBalancerClass": "portolan.dev/edge"});
    let mut state = state();
    state.apply_service(service(json!({ ranges: "192.0.2.0/24" }), of_class.clone()));
    let served = settings(&mut state).expect("settings");
    assert_eq!(served.policy.source_ranges.len(), 1);
    state.apply_service(service(json!({ ranges: "192.0.2.0/240" }), of_class));
    assert!(settings(&mut state).is_none());
}

#[test]
fn access_logs_go_to_configured_destinations() {
    let log = json!({
        "portolan.dev/edge-access-log": "true",
        "portolan.dev/edge-access-log-bucket": "logs",
        "portolan.dev/edge-access-log-prefix": "shop/web",
    });
    let of = |node: NodeProperties| {
        let mut state = EdgeState::new(node, OwnedAddresses::All);
        state.apply_service(service(log.clone(), json!({})));
        let log = settings(&mut state).and_then(|settings| settings.access_log.clone());
        (log, state.faults(&key()).len())
    };
    let (to_directory, _) = of(node());
    let to_directory = to_directory.expect("access log");
    assert_eq!(
        (to_directory.destination, &*to_directory.prefix),
        (LogDestination::Directory, "logs/shop/web")
    );
    let with_buckets = |names: &[&str]| {
        let names = names.iter().map(|name| Arc::from(*name));
        of(NodeProperties {
            buckets: AllowedBuckets::Allowed(names.collect()),
            ..node()
        })
    };
    for allowed in ["logs", "*"] {
        let (to_bucket, faults) = with_buckets(&[allowed]);
        assert_eq!(faults, 0);
        assert_eq!(
            to_bucket.map(|log| log.destination),
            Some(LogDestination::Bucket("logs".into()))
        );
    }
    assert_eq!(with_buckets(&[]), (None, 1));
    assert_eq!(with_buckets(&["others"]), (None, 1));
    let (nowhere, faults) = of(NodeProperties {
        has_log_directory: false,
        ..node()
    });
    assert_eq!((nowhere, faults), (None, 1));
}

#[test]
fn file_names_in_a_bucket_start_with_the_namespace() {
    let prefix_for = |prefix: &str| {
        let log = json!({
            "portolan.dev/edge-access-log": "true",
            "portolan.dev/edge-access-log-bucket": "logs",
            "portolan.dev/edge-access-log-prefix": prefix,
        });
        let mut state = EdgeState::new(
            NodeProperties {
                buckets: AllowedBuckets::Allowed(["logs".into()].into()),
                ..node()
            },
            OwnedAddresses::All,
        );
        state.apply_service(service(log, json!({})));
        let log = settings(&mut state).and_then(|settings| settings.access_log.clone());
        assert!(state.faults(&key()).is_empty());
        log.map(|log| log.prefix.to_string())
    };
    assert_eq!(prefix_for("").as_deref(), Some("shop"));
    assert_eq!(prefix_for("shop").as_deref(), Some("shop"));
    assert_eq!(prefix_for("shop/prod").as_deref(), Some("shop/prod"));
    for (prefix, expected) in [
        ("bank", "shop/bank"),
        ("shopping/prod", "shop/shopping/prod"),
        ("/bank/shop", "shop/bank/shop"),
        ("my-bucket-prefix/prod", "shop/my-bucket-prefix/prod"),
    ] {
        assert_eq!(prefix_for(prefix).as_deref(), Some(expected));
    }
}
