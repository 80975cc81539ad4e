//! Annotations of Alibaba Cloud.

use edge::settings::{Balance, ProxyVersion, TlsPolicy};

use super::{Provider, shared_rows};
use crate::annotations::row::{Annotation, ApplyError, Effect, Remedy, Row};
use crate::annotations::value::{self, InvalidValue, keyword, number, seconds};
use crate::annotations::values::{AnnotationValues, AppProtocol, CheckProtocol, StickyMode};

macro_rules! alibaba {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/alibaba-cloud-loadbalancer-", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "Alibaba",
    prefixes: &["service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"],
    rows: ROWS,
};

/// Access lists restrict clients only while they are enabled.
pub(super) const ACCESS_LIST_SWITCH: (&str, &str, &str) = (alibaba!("acl-id"), alibaba!("acl-status"), "off");

const NETWORK: &str = "networks of the cloud";
const RESOURCES: &str = "resources of the cloud";
const BILLING: &str = "product of the cloud";

const ROWS: &[Row] = &[
    Row::scope(alibaba!("address-type"), &["intranet"], &["internet"]),
    Row::requires_edge(
        alibaba!("protocol-port"),
        "protocol of each port, such as `https:443,http:80`",
        protocol_ports,
    ),
    shared_rows::certificates(alibaba!("cert-id")),
    Row::configures_edge(
        alibaba!("tls-cipher-policy"),
        "versions of TLS, 1.2 at least",
        |values, annotation| {
            let policies = [
                ("tls_cipher_policy_1_0", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_1", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_2", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_2_strict", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_2_strict_with_1_3", TlsPolicy::Tls12And13),
            ];
            values
                .tls
                .policy
                .set(annotation, keyword(annotation.value, &policies)?)
        },
    ),
    Row::requires_edge(
        alibaba!("forward-port"),
        "ports of `http` redirect clients to the first port of `https`",
        |values, annotation| {
            let pairs = annotation.value.split(',').map(|pair| pair.split_once(':'));
            let mut are_ports = pairs.map(|pair| {
                pair.is_some_and(|(from, to)| value::port(from).is_ok() && value::port(to).is_ok())
            });
            if !are_ports.all(|is_pair| is_pair) {
                return Err(InvalidValue::expected("pairs of ports such as 80:443").into());
            }
            values.protocols.redirects_to_https.set(annotation, true)
        },
    ),
    Row::requires_edge(
        alibaba!("proxy-protocol"),
        "PROXY header of version 2 for backends",
        |values, annotation| {
            let version = value::on_off(annotation.value)?.then_some(ProxyVersion::V2);
            values
                .proxy_protocol
                .to_backends
                .set_with_default(annotation, version, None)
        },
    ),
    Row::configures_edge(
        alibaba!("scheduler"),
        "balancing algorithm for new connections",
        |values, annotation| {
            let schedulers = [
                ("rr", Balance::RoundRobin),
                ("wrr", Balance::RoundRobin),
                ("wlc", Balance::LeastConnections),
                ("sch", Balance::Maglev),
                ("tch", Balance::Maglev),
            ];
            values
                .balance
                .set(annotation, keyword(annotation.value, &schedulers)?)
        },
    ),
    Row::requires_edge(
        alibaba!("persistence-timeout"),
        "sticky sessions, up to 3600 seconds; 0 for none",
        |values, annotation| {
            let timeout = seconds(annotation.value, 0..=3_600)?;
            if timeout.is_zero() {
                return Ok(Effect::Unchanged);
            }
            values.stickiness.timeout.set(annotation, timeout)?;
            values.stickiness.mode.set(annotation, StickyMode::Source)
        },
    ),
    Row::requires_edge(
        alibaba!("sticky-session"),
        "sticky sessions by cookie",
        |values, annotation| {
            if !value::on_off(annotation.value)? {
                return Ok(Effect::Unchanged);
            }
            values.stickiness.mode.set(annotation, StickyMode::Cookie)
        },
    ),
    Row::cloud_only_checked(
        alibaba!("sticky-session-type"),
        "cookie of the backend; the edge always uses its own",
        |text| keyword(text, &[("insert", ()), ("server", ())]),
    ),
    shared_rows::cookie_name(alibaba!("cookie")),
    Row::configures_edge(
        alibaba!("cookie-timeout"),
        "lifetime of the cookie, 1 to 86400 seconds",
        |values, annotation| {
            values
                .stickiness
                .cookie_max_age
                .set(annotation, seconds(annotation.value, 1..=86_400)?)
        },
    ),
    Row::prefers_edge(
        alibaba!("connection-drain"),
        "draining of connections to a removed backend; `off` closes them at once",
        |values, annotation| {
            values
                .timeouts
                .is_draining
                .set_with_default(annotation, value::on_off(annotation.value)?, false)
        },
    ),
    Row::configures_edge(
        alibaba!("connection-drain-timeout"),
        "draining time, 10 to 900 seconds",
        |values, annotation| {
            values
                .timeouts
                .draining
                .set(annotation, seconds(annotation.value, 10..=900)?)
        },
    ),
    Row::prefers_edge(
        alibaba!("idle-timeout"),
        "idle timeout, 1 to 60 seconds",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 1..=60)?)
        },
    ),
    Row::prefers_edge(
        alibaba!("established-timeout"),
        "idle timeout, 10 to 900 seconds",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 10..=900)?)
        },
    ),
    Row::prefers_edge(
        alibaba!("health-check-flag"),
        "enable health checks",
        |values, annotation| {
            values.health_check.is_enabled.set_with_default(
                annotation,
                value::on_off(annotation.value)?,
                false,
            )
        },
    ),
    Row::configures_edge(
        alibaba!("health-check-type"),
        "protocol of health checks",
        |values, annotation| {
            values.health_check.protocol.set(
                annotation,
                keyword(
                    annotation.value,
                    &[("tcp", CheckProtocol::Tcp), ("http", CheckProtocol::Http)],
                )?,
            )
        },
    ),
    Row::configures_edge(
        alibaba!("health-check-uri"),
        "path of the health check",
        |values, annotation| {
            values
                .health_check
                .path
                .set(annotation, value::path(annotation.value)?)
        },
    ),
    shared_rows::check_host(alibaba!("health-check-domain")),
    Row::configures_edge(
        alibaba!("health-check-httpcode"),
        "statuses of a healthy backend, such as `http_2xx,http_3xx`",
        |values, annotation| {
            values
                .health_check
                .expected_statuses
                .set(annotation, value::statuses(annotation.value)?)
        },
    ),
    Row::configures_edge(
        alibaba!("health-check-connect-port"),
        "port of health checks",
        |values, annotation| {
            values
                .health_check
                .port
                .set(annotation, Some(value::port(annotation.value)?))
        },
    ),
    Row::configures_edge(
        alibaba!("health-check-interval"),
        "interval of health checks, 1 to 50 seconds",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 1..=50)?)
        },
    ),
    Row::configures_edge(
        alibaba!("health-check-timeout"),
        "timeout of a health check, 1 to 300 seconds",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 1..=300)?)
        },
    ),
    Row::configures_edge(
        alibaba!("health-check-connect-timeout"),
        "timeout of a health check, 1 to 300 seconds",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 1..=300)?)
        },
    ),
    Row::configures_edge(
        alibaba!("healthy-threshold"),
        "successes until a backend is healthy, 2 to 10",
        |values, annotation| {
            values
                .health_check
                .healthy_threshold
                .set(annotation, number(annotation.value, 2..=10)?)
        },
    ),
    Row::configures_edge(
        alibaba!("unhealthy-threshold"),
        "failures until a backend is unhealthy, 2 to 10",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 2..=10)?)
        },
    ),
    shared_rows::hostname(alibaba!("hostname")),
    shared_rows::node_labels(alibaba!("backend-label")),
    Row::cloud_only(
        alibaba!("http2-enabled"),
        "HTTP/2 for clients, which is always available",
    ),
    Row::cloud_only(
        alibaba!("remove-unscheduled-backend"),
        "type of targets; endpoints are always contacted directly",
    ),
    Row::cloud_only(alibaba!("id"), RESOURCES),
    Row::cloud_only(alibaba!("name"), "name of the cloud resource"),
    Row::cloud_only(alibaba!("force-override-listeners"), RESOURCES),
    Row::cloud_only(alibaba!("resource-group-id"), RESOURCES),
    Row::cloud_only(alibaba!("additional-resource-tags"), "tags of cloud resources"),
    Row::cloud_only(alibaba!("delete-protection"), RESOURCES),
    Row::cloud_only(alibaba!("modification-protection"), RESOURCES),
    Row::cloud_only(alibaba!("region"), NETWORK),
    Row::cloud_only(alibaba!("master-zoneid"), NETWORK),
    Row::cloud_only(alibaba!("slave-zoneid"), NETWORK),
    Row::cloud_only(alibaba!("vswitch-id"), NETWORK),
    Row::cloud_only(alibaba!("ip-version"), "use `spec.ipFamilies`"),
    Row::cloud_only(alibaba!("spec"), BILLING),
    shared_rows::bandwidth(alibaba!("bandwidth")),
    Row::cloud_only(alibaba!("charge-type"), BILLING),
    Row::cloud_only(alibaba!("instance-charge-type"), BILLING),
    Row::unenforceable(
        alibaba!("acl-id"),
        "access lists of the cloud, unless `acl-status` is `off`; use `spec.loadBalancerSourceRanges`",
        Remedy::Removal,
    ),
    Row::cloud_only(alibaba!("acl-status"), "access lists of the cloud"),
    Row::cloud_only(alibaba!("acl-type"), "access lists of the cloud"),
];

/// Sets the protocol of each port from pairs such as `https:443`.
fn protocol_ports(values: &mut AnnotationValues, annotation: Annotation<'_>) -> Result<Effect, ApplyError> {
    let protocols = [
        ("tcp", Some(AppProtocol::Tcp)),
        ("udp", None),
        ("http", Some(AppProtocol::Http)),
        ("https", Some(AppProtocol::Https)),
    ];
    let invalid = || {
        InvalidValue::expected("pairs of a protocol (tcp, udp, http, https) and a port, as https:443,http:80")
    };
    let mut effect = Effect::Unchanged;
    let mut ports = Vec::new();
    for (index, pair) in annotation.value.split(',').enumerate() {
        if index == value::PORTS_MAX {
            let expected = format!("up to {} pairs of a protocol and a port", value::PORTS_MAX);
            return Err(InvalidValue::expected(expected).into());
        }
        let (protocol, port) = pair.trim().split_once(':').ok_or_else(invalid)?;
        let protocol = keyword(protocol, &protocols).map_err(|_| invalid())?;
        let port = value::port_ref(port).map_err(|_| invalid())?;
        if let Some(protocol) = protocol {
            if protocol != AppProtocol::Tcp {
                effect = Effect::Changed;
            }
            ports.push((annotation.name, port, protocol));
        }
    }
    values.protocols.ports.extend(ports);
    Ok(effect)
}
