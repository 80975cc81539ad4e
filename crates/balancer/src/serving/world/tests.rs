use serde_json::{Value, json};

use client::ClientError;

use super::*;
use crate::serving::secret::Secret;

const ADDRESS: &str = "192.0.2.10";

fn place() -> Place {
    Place {
        node_name: "node-1".into(),
        has_directory: true,
        buckets: Buckets::Unknown,
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

fn service(annotations: Value, more: Value) -> Service {
    let mut spec = json!({
        "type": "LoadBalancer", "ipFamilies": ["IPv4"], "loadBalancerClass": annotations::EDGE_CLASS,
        "ports": [{"name": "web", "port": 443, "protocol": "TCP"}],
    });
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    read(json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
        "spec": spec,
        "status": {
            "loadBalancer": {"ingress": [{"ip": ADDRESS, "ipMode": "Proxy"}]},
            "conditions": [{"type": CONDITION, "status": "True"}],
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

fn world() -> World {
    World::new(place(), Owned::All)
}

fn settings(world: &mut World) -> Option<Arc<ServiceSettings>> {
    world.settle();
    world.settings().values().next().cloned()
}

fn key() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

#[test]
fn endpoints_become_backends_with_their_states() {
    let mut world = world();
    world.service_applied(service(json!({}), json!({})));
    let endpoints = json!([
        {"addresses": ["10.1.0.1"], "nodeName": "node-1", "zone": "a"},
        {"addresses": ["10.1.0.2"], "nodeName": "node-2", "conditions": {"ready": false, "serving": true, "terminating": true}},
        {"addresses": ["10.1.0.3"], "nodeName": "node-2", "conditions": {"ready": false, "serving": false}},
    ]);
    world.slice_applied(slice("a", "IPv4", endpoints));
    world.slice_applied(slice("b", "IPv6", json!([{"addresses": ["2001:db8::1"]}])));
    let found = settings(&mut world).expect("settings");
    assert_eq!(found.addresses, [ADDRESS.parse::<IpAddr>().expect("an address")]);
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
    // The other family's only if the first has none.
    world.slice_deleted(&ObjectKey::new("shop", "a"));
    let found = settings(&mut world).expect("settings");
    assert_eq!(
        found.listeners[0].backends[0].address.to_string(),
        "[2001:db8::1]:8443"
    );
}

#[test]
fn with_policy_local_only_this_nodes_endpoints_count() {
    let mut world = world();
    world.service_applied(service(json!({}), json!({"externalTrafficPolicy": "Local"})));
    let endpoints = json!([
        {"addresses": ["10.1.0.1"], "nodeName": "node-1"},
        {"addresses": ["10.1.0.2"], "nodeName": "node-2"},
    ]);
    world.slice_applied(slice("a", "IPv4", endpoints));
    let found = settings(&mut world).expect("settings");
    assert_eq!(found.listeners[0].backends.len(), 1);
}

#[test]
fn only_what_this_node_has_is_served() {
    let address: IpAddr = ADDRESS.parse().expect("an address");
    let mut world = World::new(place(), Owned::These(Addresses::new()));
    world.service_applied(service(json!({}), json!({})));
    assert!(settings(&mut world).is_none());
    world.set_owned(Owned::These([address].into()));
    assert!(settings(&mut world).is_some());
    assert_eq!(world.addresses(), [address].into());
    world.set_owned(Owned::These(Addresses::new()));
    assert!(settings(&mut world).is_none());
    // What a node proxy takes care of is none of the edge's business.
    let mut plain = service(json!({}), json!({}));
    plain.status.load_balancer.ingress[0].ip_mode = Some("VIP".to_owned());
    world.set_owned(Owned::All);
    world.service_applied(plain);
    assert!(settings(&mut world).is_none());
    assert!(!world.has_services());
}

#[test]
fn what_did_not_change_stays_the_same() {
    let mut world = world();
    world.service_applied(service(json!({}), json!({})));
    let before = settings(&mut world).expect("settings");
    world.service_applied(service(json!({"example.com/else": "x"}), json!({})));
    let after = settings(&mut world).expect("settings");
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
fn certificates_come_from_secrets_and_are_waited_for() {
    let of_aws = |value: &str| json!({"service.beta.kubernetes.io/aws-load-balancer-ssl-cert": value});
    let mut world = world();
    world.service_applied(service(
        of_aws("arn:aws:acm:x:1:certificate/own,certs/other"),
        json!({}),
    ));
    let (own, other) = (ObjectKey::new("shop", "own"), ObjectKey::new("certs", "other"));
    assert_eq!(world.secrets(), [own.clone(), other.clone()].into());
    assert!(settings(&mut world).is_none(), "no Secret is known yet");
    assert!(
        world
            .certificates
            .take(&own, &Ok(secret("", "kubernetes.io/tls")))
    );
    assert!(
        !world
            .certificates
            .take(&own, &Ok(secret("", "kubernetes.io/tls"))),
        "no news"
    );
    assert!(
        world
            .certificates
            .take(&other, &Ok(secret("a, b", "kubernetes.io/tls")))
    );
    let found = settings(&mut world).expect("settings");
    let Frontend::Ssl(tls) = &found.listeners[0].frontend else {
        panic!("{:?}", found.listeners[0].frontend);
    };
    let sources: Vec<&str> = tls.certificates.iter().map(|one| &*one.source).collect();
    assert_eq!(sources, ["shop/own"]);
    assert_eq!(
        world.complaints(&key()),
        [
            "Secret certs/other cannot be used from namespace shop: it must exist, and its annotation \
          portolan.dev/allowed-namespaces must name the namespace"
        ]
    );
    world.certificates.keep(&BTreeSet::from([own]));
    world
        .certificates
        .take(&other, &Ok(secret("a, shop", "kubernetes.io/tls")));
    world.secret_changed(&other);
    let found = settings(&mut world).expect("settings");
    assert!(matches!(&found.listeners[0].frontend, Frontend::Ssl(tls) if tls.certificates.len() == 2));
    assert!(world.complaints(&key()).is_empty());
}

#[test]
fn sticky_sessions_wait_for_the_secret_of_their_cookies() {
    let mut world = world();
    world.service_applied(service(json!({"portolan.dev/edge-sticky": "cookie"}), json!({})));
    assert!(world.gives_cookies());
    assert!(
        settings(&mut world).is_none(),
        "nobody's backend is known by its cookie yet"
    );
    world.set_cookie_secret(CookieSecret::Missing("there is none".into()));
    let without = settings(&mut world).expect("settings");
    assert_eq!(
        world.complaints(&key()),
        [
            "who tries all addresses can find out which one a cookie of a sticky session stands for: there is none"
        ]
    );
    world.set_cookie_secret(CookieSecret::Known);
    let with = settings(&mut world).expect("settings");
    assert!(world.complaints(&key()).is_empty());
    assert!(Arc::ptr_eq(&with, &without), "no setting has changed");
    // Others do not wait.
    let mut other = self::world();
    other.service_applied(service(json!({}), json!({})));
    assert!(!other.gives_cookies() && settings(&mut other).is_some());
}

#[test]
fn a_secret_of_another_type_is_complained_about() {
    let mut certificates = Certificates::default();
    let key = ObjectKey::new("shop", "own");
    certificates.take(&key, &Ok(secret("", "Opaque")));
    let outcome = certificates.of("shop", &key).expect("known");
    assert_eq!(
        outcome.expect_err("unusable"),
        "Secret shop/own is of type \"Opaque\", expected kubernetes.io/tls"
    );
}

#[test]
fn refusals_of_another_namespaces_secrets_tell_nothing_of_them() {
    let key = ObjectKey::new("certs", "other");
    let refusal = |read: &Result<Secret, ClientError>| {
        let mut certificates = Certificates::default();
        certificates.take(&key, read);
        certificates
            .of("shop", &key)
            .expect("known")
            .expect_err("refused")
    };
    let empty = read(json!({"metadata": {"resourceVersion": "1"}, "type": "kubernetes.io/tls"}));
    let not_found = ClientError::Status {
        method: http::Method::GET,
        path: String::new(),
        status: read(json!({"code": 404, "reason": "NotFound", "message": "there is none"})),
    };
    let refusals = [
        refusal(&Ok(secret("a", "kubernetes.io/tls"))),
        refusal(&Ok(secret("", "Opaque"))),
        refusal(&Ok(empty)),
        refusal(&Err(not_found)),
    ];
    assert!(refusals.iter().all(|one| *one == refusals[0]), "{refusals:?}");
    // Whom the Secret names may know.
    let mut certificates = Certificates::default();
    certificates.take(&key, &Ok(secret("shop", "Opaque")));
    let told = certificates
        .of("shop", &key)
        .expect("known")
        .expect_err("unusable");
    assert!(told.contains("is of type"), "{told}");
}

#[test]
fn serves_nobody_while_a_restriction_of_clients_is_unreadable() {
    let ranges = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let of_class = json!({"loadBalancerClass": "portolan.dev/edge"});
    let mut world = world();
    world.service_applied(service(json!({ ranges: "192.0.2.0/24" }), of_class.clone()));
    let served = settings(&mut world).expect("settings");
    assert_eq!(served.policy.source_ranges.len(), 1);
    world.service_applied(service(json!({ ranges: "192.0.2.0/240" }), of_class));
    assert!(settings(&mut world).is_none());
}

#[test]
fn access_logs_go_where_there_is_a_place() {
    let log = json!({
        "portolan.dev/edge-access-log": "true",
        "portolan.dev/edge-access-log-bucket": "logs",
        "portolan.dev/edge-access-log-prefix": "shop/web",
    });
    let of = |place: Place| {
        let mut world = World::new(place, Owned::All);
        world.service_applied(service(log.clone(), json!({})));
        let log = settings(&mut world).and_then(|settings| settings.access_log.clone());
        (log, world.complaints(&key()).len())
    };
    let (to_directory, _) = of(place());
    let to_directory = to_directory.expect("a log");
    assert_eq!(
        (to_directory.destination, &*to_directory.prefix),
        (LogDestination::Directory, "logs/shop/web")
    );
    let with_buckets = |names: &[&str]| {
        let names = names.iter().map(|name| Arc::from(*name));
        of(Place {
            buckets: Buckets::Allowed(names.collect()),
            ..place()
        })
    };
    for allowed in ["logs", "*"] {
        let (to_bucket, complaints) = with_buckets(&[allowed]);
        assert_eq!(complaints, 0);
        assert_eq!(
            to_bucket.map(|log| log.destination),
            Some(LogDestination::Bucket("logs".into()))
        );
    }
    assert_eq!(with_buckets(&[]), (None, 1));
    assert_eq!(with_buckets(&["others"]), (None, 1));
    let (nowhere, complaints) = of(Place {
        has_directory: false,
        ..place()
    });
    assert_eq!((nowhere, complaints), (None, 1));
}

#[test]
fn names_of_files_in_a_bucket_begin_with_the_namespace() {
    let prefix_for = |prefix: &str| {
        let log = json!({
            "portolan.dev/edge-access-log": "true",
            "portolan.dev/edge-access-log-bucket": "logs",
            "portolan.dev/edge-access-log-prefix": prefix,
        });
        let mut world = World::new(
            Place {
                buckets: Buckets::Allowed(["logs".into()].into()),
                ..place()
            },
            Owned::All,
        );
        world.service_applied(service(log, json!({})));
        let log = settings(&mut world).and_then(|settings| settings.access_log.clone());
        assert!(world.complaints(&key()).is_empty());
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
