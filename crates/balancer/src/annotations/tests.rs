use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use edge::settings::{
    Alpn, BackendProtocol, Balance, HealthProbe, Limits, Policy, ProxyVersion, Stickiness, TlsPolicy,
};
use serde_json::{Value, json};

use super::row::Remedy;
use super::wish::{FrontendWish, ListenerWish};
use super::*;

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
    serde_json::from_value(object).expect("a Service")
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

fn wish(reading: Reading) -> wish::EdgeWish {
    assert_eq!(reading.faults, []);
    reading.edge.expect("the edge is asked for")
}

fn spoken(listeners: &[ListenerWish]) -> Vec<(u16, FrontendWish, BackendProtocol)> {
    let of = |listener: &ListenerWish| (listener.port, listener.frontend, listener.backend_protocol);
    listeners.iter().map(of).collect()
}

const HTTP: FrontendWish = FrontendWish::Http {
    redirects_to_https: None,
};

#[test]
fn every_row_is_there_once_and_begins_as_its_place_says() {
    let mut names = BTreeSet::new();
    for row in rows() {
        assert!(names.insert(row.name), "{} is there twice", row.name);
        assert!(!row.about.is_empty(), "{}", row.name);
    }
    // All that the documentation of Kubernetes names.
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
fn the_documentations_example_of_aws_is_in_force() {
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
    assert_eq!(
        reading.without_meaning,
        [format!("{AWS}additional-resource-tags")]
    );
    assert_eq!(reading.nodes.len(), 1);
    let port = Fault::Value {
        annotation: format!("{AWS}ssl-ports"),
        value: "8443".to_owned(),
        allowed: "names or numbers of the Service's ports".to_owned(),
    };
    assert_eq!(reading.faults, [port]);
    let wish = reading.edge.expect("the edge");
    assert_eq!(
        spoken(&wish.listeners),
        [
            (80, FrontendWish::Tcp, BackendProtocol::Tcp),
            (443, FrontendWish::Https, BackendProtocol::Https),
        ]
    );
    let names: Vec<&str> = wish.certificates.iter().map(|secret| &*secret.name).collect();
    assert_eq!(names, ["12345678-1234-1234-1234-123456789012"]);
    assert_eq!(wish.tls_policy, TlsPolicy::Tls12);
    assert_eq!(wish.policy.proxy_protocol_to_backends, Some(ProxyVersion::V1));
    assert_eq!(wish.policy.draining, Some(Duration::from_secs(60)));
    assert_eq!(wish.policy.idle_timeout, Duration::from_secs(60));
    assert!(wish.policy.is_cross_zone);
    let log = wish.access_log.expect("a log");
    assert_eq!(log.bucket.as_deref(), Some("my-bucket"));
    assert_eq!(&*log.prefix, "my-bucket-prefix/prod");
    assert_eq!(log.interval, Duration::from_secs(3_600));
    let check = wish.policy.health_check.expect("checks");
    assert_eq!(check.probe, HealthProbe::Tcp);
    assert_eq!(
        (check.interval, check.timeout),
        (Duration::from_secs(20), Duration::from_secs(5))
    );
    assert_eq!((check.healthy_threshold, check.unhealthy_threshold), (2, 3));
}

#[test]
fn certificate_and_backend_protocol_say_what_clients_speak() {
    let cases = [
        (None, FrontendWish::Ssl, BackendProtocol::Tcp),
        (Some("tcp"), FrontendWish::Ssl, BackendProtocol::Tcp),
        (Some("ssl"), FrontendWish::Ssl, BackendProtocol::Ssl),
        (Some("http"), FrontendWish::Https, BackendProtocol::Http),
        (Some("https"), FrontendWish::Https, BackendProtocol::Https),
    ];
    for (backend, frontend, spoken_to) in cases {
        let mut annotations = vec![("ssl-cert", "web"), ("ssl-ports", "https")];
        annotations.extend(backend.map(|backend| ("backend-protocol", backend)));
        let plain = match backend {
            Some("http") => (80, HTTP, BackendProtocol::Http),
            _ => (80, FrontendWish::Tcp, BackendProtocol::Tcp),
        };
        let wish = wish(aws(&annotations));
        assert_eq!(
            spoken(&wish.listeners),
            [plain, (443, frontend, spoken_to)],
            "{backend:?}"
        );
    }
    // Without a certificate only http needs the edge.
    assert!(aws(&[("backend-protocol", "tcp")]).edge.is_none());
    assert!(aws(&[("backend-protocol", "https")]).edge.is_none());
    let both = wish(aws(&[("backend-protocol", "http")]));
    assert_eq!(both.listeners[1].frontend, HTTP);
    // All ports have TLS if none is named.
    let all = wish(aws(&[("ssl-cert", "web"), ("ssl-ports", "*")]));
    assert!(all.listeners.iter().all(|one| one.frontend == FrontendWish::Ssl));
}

#[test]
fn a_network_balancer_passes_packets_on_until_it_must_not() {
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
    let wish = wish(aws(&hard));
    assert_eq!(wish.policy.proxy_protocol_to_backends, Some(ProxyVersion::V2));
    assert_eq!(
        wish.policy.health_check.map(|check| check.interval),
        Some(Duration::from_secs(10))
    );
    // Azure's balancer passes packets on anyway.
    let azure = "service.beta.kubernetes.io/azure-load-balancer-health-probe-request-path";
    assert!(read(&service(&[(azure, "/healthz")], json!({}))).edge.is_none());
    let of_class = service(&[(azure, "/healthz")], json!({"loadBalancerClass": EDGE_CLASS}));
    let check = read(&of_class).edge.and_then(|wish| wish.policy.health_check);
    assert!(matches!(
        check.map(|check| check.probe),
        Some(HealthProbe::Http { .. })
    ));
}

#[test]
fn a_bad_value_says_what_it_may_be_and_leaves_the_rest_in_force() {
    let reading = aws(&[
        ("ssl-cert", "web"),
        ("connection-idle-timeout", "5000"),
        ("proxy-protocol", "yes"),
        ("healthcheck-port", "0"),
        ("access-log-emit-interval", "7"),
        ("target-node-labels", "a b"),
    ]);
    let faults: Vec<String> = reading.faults.iter().map(Fault::to_string).collect();
    assert_eq!(
        faults,
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
    let wish = reading.edge.expect("the certificate is in force");
    assert_eq!(wish.policy.idle_timeout, Policy::IDLE_TIMEOUT);
    assert_eq!(wish.policy.proxy_protocol_to_backends, None);
}

#[test]
fn what_means_nothing_and_what_is_unknown_is_named() {
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
    assert_eq!(reading.faults, []);
    assert_eq!(reading.without_meaning, [annotations[4].0]);
    assert_eq!(reading.without_edge, [annotations[0].0]);
    assert_eq!(reading.unknown, [annotations[3].0, annotations[1].0]);
    assert!(reading.edge.is_none());
    let bad = [(annotations[0].0, "3000")];
    let reading = read(&service(&bad, json!({})));
    assert!(
        reading.faults[0]
            .to_string()
            .ends_with("expected Mbit/s from 1 to 2000")
    );
}

#[test]
fn bandwidths_are_in_force_where_the_edge_serves() {
    let limits = |annotations: &[(&str, &str)], spec: Value| {
        let reading = read(&service(annotations, spec));
        assert_eq!(reading.faults, []);
        let limits = reading.edge.map(|wish| wish.policy.limits);
        let bytes = limits.map(|limits| {
            let Limits {
                received_bytes_per_second: received,
                sent_bytes_per_second: sent,
                both_bytes_per_second: both,
                ..
            } = limits;
            (received, sent, both)
        });
        (bytes, reading.without_edge)
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
fn shapes_of_oracle_are_bandwidths() {
    let oci = |name: &str| format!("service.beta.kubernetes.io/oci-load-balancer-{name}");
    let both = |shape: &str, max: &str| {
        let annotations = [(oci("shape"), shape), (oci("shape-flex-max"), max)];
        let annotations: Vec<(&str, &str)> = annotations
            .iter()
            .map(|(name, text)| (name.as_str(), *text))
            .collect();
        let reading = read(&service(&annotations, json!({"loadBalancerClass": EDGE_CLASS})));
        let wish = reading.edge.expect("it is the edge's");
        (wish.policy.limits.both_bytes_per_second, reading.faults.len())
    };
    assert_eq!(both("flexible", "80"), (10_000_000, 0));
    assert_eq!(both("flexible", "80Mbps"), (10_000_000, 0));
    assert_eq!(both("400Mbps", ""), (50_000_000, 0));
    assert_eq!(both("10Mbps-Micro", ""), (1_250_000, 0));
    assert_eq!(both("flexible", "9"), (0, 1));
    assert_eq!(both("large", ""), (0, 1));
}

#[test]
fn alpn_is_as_the_policy_says() {
    let policies = [
        ("HTTP1Only", Alpn::Http1Only),
        ("HTTP2Only", Alpn::Http2Only),
        ("HTTP2Optional", Alpn::Http2Optional),
        ("HTTP2Preferred", Alpn::Http2Preferred),
        ("None", Alpn::Never),
    ];
    for (text, alpn) in policies {
        assert_eq!(
            wish(aws(&[("ssl-cert", "web"), ("alpn-policy", text)])).alpn,
            alpn
        );
    }
    assert_eq!(wish(aws(&[("ssl-cert", "web")])).alpn, Alpn::Automatic);
    // It moves no Service to the edge.
    assert!(aws(&[("alpn-policy", "HTTP2Only")]).edge.is_none());
}

#[test]
fn annotations_that_say_different_things() {
    let both = [
        (
            "service.beta.kubernetes.io/aws-load-balancer-connection-idle-timeout",
            "60",
        ),
        ("portolan.dev/edge-idle-timeout-seconds", "90"),
    ];
    let reading = read(&service(&both, json!({})));
    assert_eq!(
        reading.faults,
        [Fault::Contradiction {
            first: both[1].0.to_owned(),
            second: both[0].0.to_owned(),
        }]
    );
    let wish = reading.edge.expect("the edge");
    assert_eq!(wish.policy.idle_timeout, Duration::from_secs(90));
}

#[test]
fn balancers_of_requests_name_ports_or_all_of_them() {
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
    let wish = wish(reading);
    let redirected = FrontendWish::Http {
        redirects_to_https: Some(443),
    };
    assert_eq!(
        spoken(&wish.listeners),
        [
            (80, redirected, BackendProtocol::Http),
            (443, FrontendWish::Https, BackendProtocol::Http),
        ]
    );
    assert_eq!(wish.certificates[0].namespace.as_deref(), Some("shop"));
    assert_eq!(wish.policy.balance, Balance::LeastConnections);
    assert!(matches!(wish.policy.stickiness, Stickiness::Cookie { name, .. } if &*name == "backend"));
    // Bytes of TLS are passed on where it does not end here.
    let annotations = [
        (names[0].as_str(), "https"),
        (
            "service.beta.kubernetes.io/do-loadbalancer-tls-passthrough",
            "true",
        ),
    ];
    let passed = read(&service(&annotations, json!({})));
    let passed = passed.edge.expect("the edge");
    assert!(
        passed
            .listeners
            .iter()
            .all(|one| one.frontend == FrontendWish::Tcp)
    );
}

#[test]
fn ports_that_cannot_be_served_are_refused_alone() {
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
    let wish = reading.edge.expect("the edge");
    assert_eq!(
        spoken(&wish.listeners),
        [(53, FrontendWish::Udp, BackendProtocol::Tcp)]
    );
    let refused: Vec<_> = wish.refused.iter().map(|port| (port.port, port.error)).collect();
    assert_eq!(
        refused,
        [(80, wish::NO_CERTIFICATE), (99, wish::PROTOCOL_NOT_SUPPORTED)]
    );
    assert_eq!(reading.faults.len(), 2);
}

#[test]
fn the_field_of_source_ranges_counts_before_the_annotations() {
    let annotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let by_annotation = read(&service(
        &[(annotation, "192.0.2.0/24, 198.51.100.7/32")],
        json!({}),
    ));
    assert_eq!(wish(by_annotation).policy.source_ranges.len(), 2);
    let spec = json!({"loadBalancerSourceRanges": ["203.0.113.0/24"]});
    assert!(
        read(&service(&[(annotation, "192.0.2.0/24")], spec.clone()))
            .edge
            .is_none()
    );
    let groups = format!("{AWS}security-groups");
    let reading = read(&service(&[(&groups, "192.0.2.0/24,sg-53fae93f")], json!({})));
    assert_eq!(reading.faults.len(), 1);
    let wish = reading.edge.expect("the range is in force");
    assert_eq!(
        wish.policy.source_ranges,
        ["192.0.2.0/24".parse().expect("a range")]
    );
}

#[test]
fn affinity_of_the_service_is_stickiness_by_source() {
    let spec = json!({"loadBalancerClass": EDGE_CLASS, "sessionAffinity": "ClientIP",
                      "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}},
                      "trafficDistribution": "PreferClose"});
    let wish = wish(read(&service(&[], spec)));
    assert_eq!(
        wish.policy.stickiness,
        Stickiness::Source {
            timeout: Duration::from_secs(100)
        }
    );
    assert!(!wish.policy.is_cross_zone);
}

#[test]
fn the_page_shows_the_table() {
    let mut table = String::new();
    for (place, rows) in places() {
        writeln!(
            table,
            "\n### {place}\n\n| Annotation | Meaning | Effect |\n|---|---|---|"
        )
        .expect("written");
        for row in rows {
            let state = match row.means {
                Means::Nothing(_) => "none",
                Means::Asks(Reach::Hard, _) => "edge",
                Means::Asks(Reach::Soft, _) => "edge, unless packets are forwarded",
                Means::Asks(Reach::Tunes, _) => "setting",
                Means::Restricts(_) => "edge; otherwise the address is withheld",
                Means::Unenforceable(Remedy::Ranges) => "the address is withheld unless ranges are given",
                Means::Unenforceable(Remedy::Removal) => "the address is withheld",
                Means::AtEdge(_) => "setting of the edge; otherwise none",
                _ => "assigner",
            };
            let scope = match row.means {
                Means::Scope { internal, external } => {
                    let values: Vec<String> = internal
                        .iter()
                        .chain(external)
                        .map(|value| format!("`{value}`"))
                        .collect();
                    format!(": {}", values.join(", "))
                }
                _ => String::new(),
            };
            writeln!(table, "| `{}` | {}{scope} | {state} |", row.name, row.about).expect("written");
        }
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/load-balancer/reference.md"
    );
    let page = std::fs::read_to_string(path).expect("the page");
    let (begin, end) = ("<!-- table of annotations -->\n", "\n<!-- end of the table -->");
    let (before, rest) = page.split_once(begin).expect("the mark before the table");
    let (shown, after) = rest.split_once(end).expect("the mark behind the table");
    if std::env::var_os("PORTOLAN_WRITE_PAGES").is_some() {
        std::fs::write(path, format!("{before}{begin}{table}{end}{after}")).expect("a writable page");
        return;
    }
    assert!(
        shown.trim() == table.trim(),
        "docs/load-balancer/reference.md differs from the code: PORTOLAN_WRITE_PAGES=1 writes its table again:\n{table}"
    );
}

#[test]
fn secrets_are_read_from_the_annotations_that_the_api_server_knows() {
    for row in rows() {
        let service = service(
            &[(row.name, "a-secret")],
            json!({"loadBalancerClass": EDGE_CLASS}),
        );
        let wish = read(&service).edge.expect("a Service of the edge");
        let mut known = api::edge_secret::ANNOTATIONS.iter();
        let is_known = known.any(|(name, _)| *name == row.name);
        assert_eq!(!wish.certificates.is_empty(), is_known, "{}", row.name);
    }
}
