use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use edge::settings::{
    Alpn, BackendProtocol, Balance, HealthProbe, Limits, Policy, ProxyVersion, Stickiness, TlsPolicy,
};
use serde_json::{Value, json};

use super::row::Remedy;
use super::*;

mod without_effect;

const AWS: &str = "service.beta.kubernetes.io/aws-load-balancer-";

fn service(annotations: &[(&str, &str)], spec: Value) -> Service {
    let mut spec = spec;
    if spec.get("ports").is_none() {
        spec["ports"] = json!([
            {"name": "http", "port": 80, "protocol": "TCP"},
            {"name": "https", "port": 443, "protocol": "TCP"},
        ]);
    }
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let object =
        json!({"metadata": {"name": "s", "namespace": "n", "annotations": annotations}, "spec": spec});
    serde_json::from_value(object).expect("Service")
}

/// Reads annotations of AWS by the ends of their names.
fn aws(annotations: &[(&str, &str)]) -> Reading {
    let names: Vec<(String, &str)> = annotations
        .iter()
        .map(|(name, value)| (format!("{AWS}{name}"), *value))
        .collect();
    let annotations: Vec<(&str, &str)> = names
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    read(&service(&annotations, json!({})))
}

/// The configuration of the edge; fails on errors.
fn edge_spec(reading: Reading) -> EdgeSpec {
    assert_eq!(reading.errors, []);
    reading.edge.expect("configuration of the edge")
}

/// Port, client protocol and backend protocol of each listener.
fn protocols(listeners: &[ListenerSpec]) -> Vec<(u16, FrontendSpec, BackendProtocol)> {
    let of = |listener: &ListenerSpec| (listener.port, listener.frontend, listener.backend_protocol);
    listeners.iter().map(of).collect()
}

const HTTP: FrontendSpec = FrontendSpec::Http {
    redirects_to_https: None,
};

#[test]
fn rows_are_unique_and_cover_the_documented_annotations() {
    let mut names = BTreeSet::new();
    for row in rows() {
        assert!(names.insert(row.name), "{} is duplicated", row.name);
        assert!(!row.description.is_empty(), "{}", row.name);
    }
    // All annotations in the documentation of Kubernetes.
    let documented = [
        "networking.gke.io/load-balancer-type",
        "service.beta.kubernetes.io/aws-load-balancer-internal",
        "service.beta.kubernetes.io/aws-load-balancer-ssl-cert",
        "service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags",
        "service.beta.kubernetes.io/aws-load-balancer-target-node-labels",
        "service.beta.kubernetes.io/azure-load-balancer-internal",
        "service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type",
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        "service.beta.kubernetes.io/cce-load-balancer-internal-vpc",
        "service.kubernetes.io/qcloud-loadbalancer-internal-subnetid",
        "service.kubernetes.io/qcloud-loadbalancer-internet-max-bandwidth-out",
        "service.kubernetes.io/qcloud-loadbalancer-backends-label",
        "service.kubernetes.io/loadbalance-type",
        "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type",
        "service.beta.kubernetes.io/oci-load-balancer-internal",
        "service.beta.kubernetes.io/do-loadbalancer-protocol",
        "load-balancer.hetzner.cloud/protocol",
    ];
    for name in documented {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn applies_the_aws_example_of_the_documentation() {
    let reading = aws(&[
        (
            "ssl-cert",
            "arn:aws:acm:us-east-1:123456789012:certificate/12345678-1234-1234-1234-123456789012",
        ),
        ("backend-protocol", "https"),
        ("ssl-ports", "443,8443"),
        ("ssl-negotiation-policy", "ELBSecurityPolicy-TLS-1-2-2017-01"),
        ("proxy-protocol", "*"),
        ("access-log-enabled", "true"),
        ("access-log-emit-interval", "60"),
        ("access-log-s3-bucket-name", "my-bucket"),
        ("access-log-s3-bucket-prefix", "my-bucket-prefix/prod"),
        ("connection-draining-enabled", "true"),
        ("connection-draining-timeout", "60"),
        ("connection-idle-timeout", "60"),
        ("cross-zone-load-balancing-enabled", "true"),
        ("additional-resource-tags", "environment=prod,owner=devops"),
        ("healthcheck-healthy-threshold", ""),
        ("healthcheck-unhealthy-threshold", "3"),
        ("healthcheck-interval", "20"),
        ("healthcheck-timeout", "5"),
        ("target-node-labels", "ingress-gw,gw-name=public-api"),
    ]);
    assert_eq!(reading.cloud_only, [format!("{AWS}additional-resource-tags")]);
    assert_eq!(reading.nodes.len(), 1);
    let port = AnnotationError::InvalidValue {
        annotation: format!("{AWS}ssl-ports"),
        value: "8443".to_owned(),
        allowed: "names or numbers of the Service's ports".to_owned(),
    };
    assert_eq!(reading.errors, [port]);
    let spec = reading.edge.expect("configuration of the edge");
    assert_eq!(
        protocols(&spec.listeners),
        [
            (80, FrontendSpec::Tcp, BackendProtocol::Tcp),
            (443, FrontendSpec::Https, BackendProtocol::Https),
        ]
    );
    let names: Vec<&str> = spec.certificates.iter().map(|secret| &*secret.name).collect();
    assert_eq!(names, ["12345678-1234-1234-1234-123456789012"]);
    assert_eq!(spec.tls_policy, TlsPolicy::Tls12);
    assert_eq!(spec.policy.proxy_protocol_to_backends, Some(ProxyVersion::V1));
    assert_eq!(spec.policy.draining, Some(Duration::from_secs(60)));
    assert_eq!(spec.policy.idle_timeout, Duration::from_secs(60));
    assert!(spec.policy.is_cross_zone);
    let log = spec.access_log.expect("access log");
    assert_eq!(log.bucket.as_deref(), Some("my-bucket"));
    assert_eq!(&*log.prefix, "my-bucket-prefix/prod");
    assert_eq!(log.interval, Duration::from_secs(3_600));
    let check = spec.policy.health_check.expect("health check");
    assert_eq!(check.probe, HealthProbe::Tcp);
    assert_eq!(
        (check.interval, check.timeout),
        (Duration::from_secs(20), Duration::from_secs(5))
    );
    assert_eq!((check.healthy_threshold, check.unhealthy_threshold), (2, 3));
}

#[test]
fn certificate_and_backend_protocol_select_the_client_protocol() {
    let cases = [
        (None, FrontendSpec::Ssl, BackendProtocol::Tcp),
        (Some("tcp"), FrontendSpec::Ssl, BackendProtocol::Tcp),
        (Some("ssl"), FrontendSpec::Ssl, BackendProtocol::Ssl),
        (Some("http"), FrontendSpec::Https, BackendProtocol::Http),
        (Some("https"), FrontendSpec::Https, BackendProtocol::Https),
    ];
    for (backend, frontend, backend_protocol) in cases {
        let mut annotations = vec![("ssl-cert", "web"), ("ssl-ports", "https")];
        annotations.extend(backend.map(|backend| ("backend-protocol", backend)));
        let plain = match backend {
            Some("http") => (80, HTTP, BackendProtocol::Http),
            _ => (80, FrontendSpec::Tcp, BackendProtocol::Tcp),
        };
        let spec = edge_spec(aws(&annotations));
        assert_eq!(
            protocols(&spec.listeners),
            [plain, (443, frontend, backend_protocol)],
            "{backend:?}"
        );
    }
    // Without a certificate only http needs the edge.
    assert!(aws(&[("backend-protocol", "tcp")]).edge.is_none());
    assert!(aws(&[("backend-protocol", "https")]).edge.is_none());
    let both = edge_spec(aws(&[("backend-protocol", "http")]));
    assert_eq!(both.listeners[1].frontend, HTTP);
    // All ports have TLS if none is named.
    let all = edge_spec(aws(&[("ssl-cert", "web"), ("ssl-ports", "*")]));
    assert!(all.listeners.iter().all(|one| one.frontend == FrontendSpec::Ssl));
}

#[test]
fn network_load_balancers_forward_packets_unless_the_edge_is_required() {
    let soft = [
        ("connection-idle-timeout", "60"),
        ("connection-draining-enabled", "true"),
        ("healthcheck-interval", "10"),
    ];
    assert!(aws(&soft).edge.is_some());
    let with_type: Vec<_> = soft.iter().copied().chain([("type", "nlb")]).collect();
    assert!(aws(&with_type).edge.is_none());
    let hard: Vec<_> = with_type
        .iter()
        .copied()
        .chain([("proxy-protocol", "*")])
        .collect();
    let spec = edge_spec(aws(&hard));
    assert_eq!(spec.policy.proxy_protocol_to_backends, Some(ProxyVersion::V2));
    assert_eq!(
        spec.policy.health_check.map(|check| check.interval),
        Some(Duration::from_secs(10))
    );
    // Azure's load balancer always forwards packets.
    let azure = "service.beta.kubernetes.io/azure-load-balancer-health-probe-request-path";
    assert!(read(&service(&[(azure, "/healthz")], json!({}))).edge.is_none());
    let of_class = service(&[(azure, "/healthz")], json!({"loadBalancerClass": EDGE_CLASS}));
    let check = read(&of_class).edge.and_then(|spec| spec.policy.health_check);
    assert!(matches!(
        check.map(|check| check.probe),
        Some(HealthProbe::Http { .. })
    ));
}

#[test]
fn invalid_values_are_reported_and_other_annotations_are_applied() {
    let reading = aws(&[
        ("ssl-cert", "web"),
        ("connection-idle-timeout", "5000"),
        ("proxy-protocol", "yes"),
        ("healthcheck-port", "0"),
        ("access-log-emit-interval", "7"),
        ("target-node-labels", "a b"),
    ]);
    let errors: Vec<String> = reading.errors.iter().map(AnnotationError::to_string).collect();
    assert_eq!(
        errors,
        [
            format!(
                "annotation {AWS}access-log-emit-interval has the value \"7\", expected minutes, 5 or 60"
            ),
            format!(
                "annotation {AWS}connection-idle-timeout has the value \"5000\", expected seconds from 1 to 4000"
            ),
            format!(
                "annotation {AWS}healthcheck-port has the value \"0\", expected traffic-port or a port number from 1 to 65535"
            ),
            format!("annotation {AWS}proxy-protocol has the value \"yes\", expected *"),
            format!(
                "annotation {AWS}target-node-labels has the value \"a b\", expected labels of nodes as key=value, separated \
                 by commas"
            ),
        ]
    );
    let spec = reading.edge.expect("configuration of the edge");
    assert_eq!(spec.policy.idle_timeout, Policy::IDLE_TIMEOUT);
    assert_eq!(spec.policy.proxy_protocol_to_backends, None);
}

#[test]
fn reports_cloud_only_and_unknown_annotations() {
    let annotations = [
        (
            "service.kubernetes.io/qcloud-loadbalancer-internet-max-bandwidth-out",
            "10",
        ),
        ("service.beta.kubernetes.io/aws-load-balancer-new-thing", "x"),
        ("example.com/of-others", "x"),
        ("portolan.dev/edge-tsl-ports", "443"),
        ("service.kubernetes.io/loadbalance-id", "lb-1"),
    ];
    let reading = read(&service(&annotations, json!({})));
    assert_eq!(reading.errors, []);
    assert_eq!(reading.cloud_only, [annotations[4].0]);
    assert_eq!(reading.edge_only, [annotations[0].0]);
    assert_eq!(reading.unknown, [annotations[3].0, annotations[1].0]);
    assert!(reading.edge.is_none());
    let invalid = [(annotations[0].0, "3000")];
    let reading = read(&service(&invalid, json!({})));
    assert!(
        reading.errors[0]
            .to_string()
            .ends_with("expected Mbit/s from 1 to 2000")
    );
}

#[test]
fn bandwidth_limits_apply_at_the_edge_only() {
    let limits = |annotations: &[(&str, &str)], spec: Value| {
        let reading = read(&service(annotations, spec));
        assert_eq!(reading.errors, []);
        let limits = reading.edge.map(|spec| spec.policy.limits);
        let bytes = limits.map(|limits| {
            let Limits {
                received_bytes_per_second: received,
                sent_bytes_per_second: sent,
                both_bytes_per_second: both,
                ..
            } = limits;
            (received, sent, both)
        });
        (bytes, reading.edge_only)
    };
    let clouds = [
        (
            "service.kubernetes.io/qcloud-loadbalancer-internet-max-bandwidth-out",
            (0, 10_000_000, 0),
        ),
        (
            "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-bandwidth",
            (10_000_000, 10_000_000, 0),
        ),
        (
            "service.beta.kubernetes.io/cce-elastic-ip-bandwidth-in-mbps",
            (10_000_000, 10_000_000, 0),
        ),
        (
            "service.beta.kubernetes.io/oci-load-balancer-shape-flex-max",
            (0, 0, 10_000_000),
        ),
    ];
    for (name, bytes) in clouds {
        assert_eq!(limits(&[(name, "80")], json!({})), (None, vec![name]));
        let of_class = json!({"loadBalancerClass": EDGE_CLASS});
        assert_eq!(limits(&[(name, "80")], of_class), (Some(bytes), Vec::new()));
    }
    let ours = [
        ("portolan.dev/edge-received-megabits-per-second", "8"),
        ("portolan.dev/edge-sent-megabits-per-second", "16"),
        ("portolan.dev/edge-megabits-per-second", "24"),
    ];
    assert_eq!(
        limits(&ours, json!({})),
        (Some((1_000_000, 2_000_000, 3_000_000)), Vec::new())
    );
}

#[test]
fn oracle_shapes_select_bandwidth() {
    let oci = |name: &str| format!("service.beta.kubernetes.io/oci-load-balancer-{name}");
    let both = |shape: &str, max: &str| {
        let annotations = [(oci("shape"), shape), (oci("shape-flex-max"), max)];
        let annotations: Vec<(&str, &str)> = annotations
            .iter()
            .map(|(name, text)| (name.as_str(), *text))
            .collect();
        let reading = read(&service(&annotations, json!({"loadBalancerClass": EDGE_CLASS})));
        let spec = reading.edge.expect("configuration of the edge");
        (spec.policy.limits.both_bytes_per_second, reading.errors.len())
    };
    assert_eq!(both("flexible", "80"), (10_000_000, 0));
    assert_eq!(both("flexible", "80Mbps"), (10_000_000, 0));
    assert_eq!(both("400Mbps", ""), (50_000_000, 0));
    assert_eq!(both("10Mbps-Micro", ""), (1_250_000, 0));
    assert_eq!(both("flexible", "9"), (0, 1));
    assert_eq!(both("large", ""), (0, 1));
}

#[test]
fn alpn_policy_selects_the_protocols() {
    let policies = [
        ("HTTP1Only", Alpn::Http1Only),
        ("HTTP2Only", Alpn::Http2Only),
        ("HTTP2Optional", Alpn::Http2Optional),
        ("HTTP2Preferred", Alpn::Http2Preferred),
        ("None", Alpn::Never),
    ];
    for (text, alpn) in policies {
        assert_eq!(
            edge_spec(aws(&[("ssl-cert", "web"), ("alpn-policy", text)])).alpn,
            alpn
        );
    }
    assert_eq!(edge_spec(aws(&[("ssl-cert", "web")])).alpn, Alpn::Automatic);
    // The annotation does not move a Service to the edge.
    assert!(aws(&[("alpn-policy", "HTTP2Only")]).edge.is_none());
}

#[test]
fn first_of_conflicting_annotations_takes_precedence() {
    let both = [
        (
            "service.beta.kubernetes.io/aws-load-balancer-connection-idle-timeout",
            "60",
        ),
        ("portolan.dev/edge-idle-timeout-seconds", "90"),
    ];
    let reading = read(&service(&both, json!({})));
    assert_eq!(
        reading.errors,
        [AnnotationError::Conflict {
            first: both[1].0.to_owned(),
            second: both[0].0.to_owned(),
        }]
    );
    let spec = reading.edge.expect("configuration of the edge");
    assert_eq!(spec.policy.idle_timeout, Duration::from_secs(90));
}

#[test]
fn digital_ocean_annotations_select_port_protocols() {
    let digital_ocean = |name: &str| format!("service.beta.kubernetes.io/do-loadbalancer-{name}");
    let names = [
        digital_ocean("protocol"),
        digital_ocean("tls-ports"),
        digital_ocean("certificate-id"),
        digital_ocean("redirect-http-to-https"),
        digital_ocean("sticky-sessions-type"),
        digital_ocean("sticky-sessions-cookie-name"),
        digital_ocean("algorithm"),
        digital_ocean("hostname"),
    ];
    let values = [
        "http",
        "443",
        "shop/web",
        "true",
        "cookies",
        "backend",
        "least_connections",
        "LB.example.com",
    ];
    let annotations: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
    let reading = read(&service(&annotations, json!({})));
    assert_eq!(reading.hostname.as_deref(), Some("lb.example.com"));
    let spec = edge_spec(reading);
    let redirected = FrontendSpec::Http {
        redirects_to_https: Some(443),
    };
    assert_eq!(
        protocols(&spec.listeners),
        [
            (80, redirected, BackendProtocol::Http),
            (443, FrontendSpec::Https, BackendProtocol::Http),
        ]
    );
    assert_eq!(spec.certificates[0].namespace.as_deref(), Some("shop"));
    assert_eq!(spec.policy.balance, Balance::LeastConnections);
    assert!(matches!(spec.policy.stickiness, Stickiness::Cookie { name, .. } if &*name == "backend"));
    // With passthrough, listeners forward TLS as bytes.
    let annotations = [
        (names[0].as_str(), "https"),
        (
            "service.beta.kubernetes.io/do-loadbalancer-tls-passthrough",
            "true",
        ),
    ];
    let passed = read(&service(&annotations, json!({})));
    let passed = passed.edge.expect("configuration of the edge");
    assert!(
        passed
            .listeners
            .iter()
            .all(|one| one.frontend == FrontendSpec::Tcp)
    );
}

#[test]
fn refuses_only_the_ports_that_cannot_be_served() {
    let spec = json!({
        "loadBalancerClass": EDGE_CLASS,
        "ports": [
            {"name": "a", "port": 80, "protocol": "TCP"},
            {"name": "b", "port": 53, "protocol": "UDP"},
            {"name": "c", "port": 99, "protocol": "SCTP"},
        ],
    });
    let reading = read(&service(
        &[("load-balancer.hetzner.cloud/protocol", "https")],
        spec,
    ));
    let spec = reading.edge.expect("configuration of the edge");
    assert_eq!(
        protocols(&spec.listeners),
        [(53, FrontendSpec::Udp, BackendProtocol::Tcp)]
    );
    let refused: Vec<_> = spec.refused.iter().map(|port| (port.port, port.error)).collect();
    assert_eq!(refused, [(80, NO_CERTIFICATE), (99, PROTOCOL_NOT_SUPPORTED)]);
    assert_eq!(reading.errors.len(), 2);
}

#[test]
fn source_ranges_of_the_field_precede_annotations() {
    let annotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let by_annotation = read(&service(
        &[(annotation, "192.0.2.0/24, 198.51.100.7/32")],
        json!({}),
    ));
    assert_eq!(edge_spec(by_annotation).policy.source_ranges.len(), 2);
    let by_annotation = read(&service(
        &[(
            annotation,
            "fd00::/8,198.51.100.7/32,192.0.2.128/25,192.0.2.0/25,192.0.2.9/32",
        )],
        json!({}),
    ));
    assert_eq!(
        edge_spec(by_annotation).policy.source_ranges,
        ["192.0.2.0/24", "198.51.100.7/32", "fd00::/8"].map(|text| text.parse().expect("range")),
        "in order and joined"
    );
    let spec = json!({"loadBalancerSourceRanges": ["203.0.113.0/24"]});
    assert!(
        read(&service(&[(annotation, "192.0.2.0/24")], spec.clone()))
            .edge
            .is_none()
    );
    let groups = format!("{AWS}security-groups");
    let reading = read(&service(&[(&groups, "192.0.2.0/24,sg-53fae93f")], json!({})));
    assert_eq!(reading.errors.len(), 1);
    let spec = reading.edge.expect("configuration of the edge");
    assert_eq!(
        spec.policy.source_ranges,
        ["192.0.2.0/24".parse().expect("range")]
    );
}

/// API-28: `appProtocol` selects the protocols of a port unless annotations do.
#[test]
fn app_protocol_selects_http_and_its_version() {
    use BackendProtocol::{Http, Http2, Https, Tcp};
    let ports = |annotations: &[(&str, &str)], hints: &[&str]| {
        let ports: Vec<Value> = hints
            .iter()
            .zip(1..)
            .map(|(hint, port)| json!({"name": format!("p{port}"), "port": port, "protocol": "TCP", "appProtocol": hint}))
            .collect();
        let spec = json!({"loadBalancerClass": EDGE_CLASS, "ports": ports});
        let listeners = edge_spec(read(&service(annotations, spec))).listeners;
        let protocols = protocols(&listeners).into_iter();
        protocols
            .map(|(_, client, backend)| (client, backend))
            .collect::<Vec<_>>()
    };
    let hints = [
        "kubernetes.io/h2c",
        "grpc",
        "kubernetes.io/ws",
        "http",
        "https",
        "kubernetes.io/wss",
        "mysql",
    ];
    let plain = FrontendSpec::Tcp;
    assert_eq!(
        ports(&[], &hints),
        [
            (HTTP, Http2),
            (HTTP, Http2),
            (HTTP, Http),
            (HTTP, Http),
            (plain, Tcp),
            (plain, Tcp),
            (plain, Tcp)
        ]
    );
    let secured = [("portolan.dev/edge-certificates", "web")];
    let (tls, bytes) = (FrontendSpec::Https, FrontendSpec::Ssl);
    assert_eq!(
        ports(&secured, &hints),
        [
            (tls, Http2),
            (tls, Http2),
            (tls, Http),
            (tls, Http),
            (tls, Https),
            (tls, Https),
            (bytes, Tcp)
        ]
    );
    // Annotations decide about HTTP and TLS, the hint about the version of HTTP.
    let backends = "service.beta.kubernetes.io/aws-load-balancer-backend-protocol";
    assert_eq!(
        ports(&[(backends, "http")], &["grpc", "https"]),
        [(HTTP, Http2), (HTTP, Http)]
    );
    assert_eq!(ports(&[(backends, "tcp")], &["grpc"]), [(plain, Tcp)]);
}

#[test]
fn tls_policies_of_aws_exist() {
    let policy = |name: &str| aws(&[("ssl-cert", "web"), ("ssl-negotiation-policy", name)]);
    for (name, expected) in [
        ("ELBSecurityPolicy-2016-08", TlsPolicy::Tls12),
        ("ELBSecurityPolicy-FS-1-2-Res-2020-10", TlsPolicy::Tls12),
        ("ELBSecurityPolicy-TLS13-1-2-Res-2021-06", TlsPolicy::Tls12And13),
        ("ELBSecurityPolicy-TLS13-1-3-2021-06", TlsPolicy::Tls13),
    ] {
        assert_eq!(edge_spec(policy(name)).tls_policy, expected, "{name}");
    }
    for name in [
        "ELBSecurityPolicy-TLS13-1-3",
        "ELBSecurityPolicy-2099-01",
        "2016-08",
    ] {
        assert_eq!(policy(name).errors.len(), 1, "{name}");
    }
}

#[test]
fn session_affinity_selects_source_stickiness() {
    let spec = json!({"loadBalancerClass": EDGE_CLASS, "sessionAffinity": "ClientIP",
                      "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}},
                      "trafficDistribution": "PreferClose"});
    let spec = edge_spec(read(&service(&[], spec)));
    assert_eq!(
        spec.policy.stickiness,
        Stickiness::Source {
            timeout: Duration::from_secs(100)
        }
    );
    assert!(!spec.policy.is_cross_zone);
}

#[test]
fn documentation_contains_the_table() {
    let mut table = String::new();
    for (provider, rows) in providers() {
        writeln!(
            table,
            "\n### {provider}\n\n| Annotation | Meaning | Effect |\n|---|---|---|"
        )
        .expect("write to a String");
        for row in rows {
            let state = match row.meaning {
                AnnotationMeaning::CloudOnly(_) => "none",
                AnnotationMeaning::Setting(EdgeNeed::Required, _) => "edge",
                AnnotationMeaning::Setting(EdgeNeed::Preferred, _) => "edge, unless packets are forwarded",
                AnnotationMeaning::Direct(_) => "setting",
                AnnotationMeaning::ClientRanges(_) => "edge; otherwise the address is withheld",
                AnnotationMeaning::Unenforceable(Remedy::Ranges) => {
                    "the address is withheld unless ranges are given"
                }
                AnnotationMeaning::Unenforceable(Remedy::Removal) => "the address is withheld",
                AnnotationMeaning::Setting(EdgeNeed::None, _) | AnnotationMeaning::EdgeOnly(_) => {
                    "setting of the edge; elsewhere reported, without effect"
                }
                _ => "assigner",
            };
            let scope = match row.meaning {
                AnnotationMeaning::Scope { internal, external } => {
                    let values: Vec<String> = internal
                        .iter()
                        .chain(external)
                        .map(|value| format!("`{value}`"))
                        .collect();
                    format!(": {}", values.join(", "))
                }
                _ => String::new(),
            };
            writeln!(table, "| `{}` | {}{scope} | {state} |", row.name, row.description)
                .expect("write to a String");
        }
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/load-balancer/reference.md"
    );
    let page = std::fs::read_to_string(path).expect("docs/load-balancer/reference.md");
    let (begin, end) = ("<!-- table of annotations -->\n", "\n<!-- end of the table -->");
    let (before, rest) = page.split_once(begin).expect("start marker of the table");
    let (shown, after) = rest.split_once(end).expect("end marker of the table");
    if std::env::var_os("PORTOLAN_WRITE_PAGES").is_some() {
        std::fs::write(path, format!("{before}{begin}{table}{end}{after}"))
            .expect("docs/load-balancer/reference.md");
        return;
    }
    assert!(
        shown.trim() == table.trim(),
        "docs/load-balancer/reference.md differs from the code: PORTOLAN_WRITE_PAGES=1 writes its table again:\n{table}"
    );
}

#[test]
fn api_server_recognizes_all_certificate_annotations() {
    for row in rows() {
        let service = service(
            &[(row.name, "a-secret")],
            json!({"loadBalancerClass": EDGE_CLASS}),
        );
        let spec = read(&service).edge.expect("configuration of the edge");
        let mut known = api::edge_secret::ANNOTATIONS.iter();
        let is_known = known.any(|(name, _)| *name == row.name);
        assert_eq!(!spec.certificates.is_empty(), is_known, "{}", row.name);
    }
}

#[test]
fn egress_is_true_or_false() {
    const EGRESS: &str = "service.portolan.dev/egress";
    let reading = |value: &str| read(&service(&[(EGRESS, value)], json!({})));
    let on = reading("true");
    assert!(on.is_egress && on.edge.is_none() && on.errors.is_empty());
    assert!(!reading("false").is_egress);
    let invalid = reading("yes");
    assert!(!invalid.is_egress);
    let errors = invalid.errors.as_slice();
    assert!(
        matches!(errors, [AnnotationError::InvalidValue { annotation, .. }] if annotation == EGRESS),
        "{errors:?}"
    );
}
