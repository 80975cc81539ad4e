//! Annotations of DigitalOcean, whose load balancer is a TCP and HTTP proxy.

use super::{Provider, shared_rows};
use crate::annotations::row::{Annotation, ApplyError, Effect, Remedy, Row};
use crate::annotations::value::{self, InvalidValue, PortSet, keyword, number, seconds};
use crate::annotations::values::{AnnotationValues, AppProtocol, StickyMode};

macro_rules! digital_ocean {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/do-loadbalancer-", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "DigitalOcean",
    prefixes: &["service.beta.kubernetes.io/do-loadbalancer-"],
    rows: ROWS,
};

const BILLING: &str = "product of the cloud";

const ROWS: &[Row] = &[
    Row::scope(digital_ocean!("network"), &["INTERNAL"], &["EXTERNAL"]),
    Row::requires_edge(
        digital_ocean!("protocol"),
        "protocol of all ports",
        |values, annotation| {
            let protocols = [
                ("tcp", AppProtocol::Tcp),
                ("http", AppProtocol::Http),
                ("https", AppProtocol::Https),
                ("http2", AppProtocol::Https),
            ];
            values.protocols.all_ports.set_with_default(
                annotation,
                keyword(annotation.value, &protocols)?,
                AppProtocol::Tcp,
            )
        },
    ),
    Row::requires_edge(
        digital_ocean!("http-ports"),
        "ports of HTTP",
        |values, annotation| ports(values, annotation, AppProtocol::Http),
    ),
    Row::requires_edge(
        digital_ocean!("tls-ports"),
        "ports of HTTPS",
        |values, annotation| ports(values, annotation, AppProtocol::Https),
    ),
    Row::requires_edge(
        digital_ocean!("http2-ports"),
        "ports of HTTPS, which includes HTTP/2",
        |values, annotation| ports(values, annotation, AppProtocol::Https),
    ),
    Row::configures_edge(
        digital_ocean!("tls-passthrough"),
        "ports of HTTPS relay bytes without terminating TLS",
        |values, annotation| {
            values
                .tls
                .passes_through
                .set(annotation, value::bool(annotation.value)?)
        },
    ),
    shared_rows::certificates(digital_ocean!("certificate-id")),
    shared_rows::redirect_to_https(digital_ocean!("redirect-http-to-https")),
    shared_rows::proxy_protocol(digital_ocean!("enable-proxy-protocol")),
    shared_rows::algorithm(digital_ocean!("algorithm")),
    Row::requires_edge(
        digital_ocean!("sticky-sessions-type"),
        "sticky sessions: `cookies` or `none`",
        |values, annotation| {
            let kinds = [("none", StickyMode::Off), ("cookies", StickyMode::Cookie)];
            values.stickiness.mode.set_with_default(
                annotation,
                keyword(annotation.value, &kinds)?,
                StickyMode::Off,
            )
        },
    ),
    shared_rows::cookie_name(digital_ocean!("sticky-sessions-cookie-name")),
    Row::configures_edge(
        digital_ocean!("sticky-sessions-cookie-ttl"),
        "lifetime of the cookie in seconds",
        |values, annotation| {
            values
                .stickiness
                .cookie_max_age
                .set(annotation, seconds(annotation.value, 1..=34_650)?)
        },
    ),
    Row::prefers_edge(
        digital_ocean!("http-idle-timeout-seconds"),
        "idle timeout, 30 to 600 seconds",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 30..=600)?)
        },
    ),
    shared_rows::check_protocol(digital_ocean!("healthcheck-protocol")),
    shared_rows::check_port(digital_ocean!("healthcheck-port")),
    shared_rows::check_path(digital_ocean!("healthcheck-path")),
    Row::prefers_edge(
        digital_ocean!("healthcheck-check-interval-seconds"),
        "interval of health checks, 3 to 300 seconds",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 3..=300)?)
        },
    ),
    Row::prefers_edge(
        digital_ocean!("healthcheck-response-timeout-seconds"),
        "timeout of a health check, 3 to 300 seconds",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 3..=300)?)
        },
    ),
    Row::prefers_edge(
        digital_ocean!("healthcheck-unhealthy-threshold"),
        "failures until a backend is unhealthy, 2 to 10",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 2..=10)?)
        },
    ),
    Row::prefers_edge(
        digital_ocean!("healthcheck-healthy-threshold"),
        "successes until a backend is healthy, 2 to 10",
        |values, annotation| {
            values
                .health_check
                .healthy_threshold
                .set(annotation, number(annotation.value, 2..=10)?)
        },
    ),
    Row::client_ranges(
        digital_ocean!("allow-rules"),
        "allowed clients, such as `cidr:192.0.2.0/24,ip:198.51.100.7`",
        |values, annotation| {
            let rules = annotation.value.split(',').map(|rule| {
                let (_, range) = rule
                    .trim()
                    .split_once(':')
                    .filter(|(kind, _)| matches!(*kind, "ip" | "cidr"))?;
                value::range(range)
            });
            let ranges: Option<Vec<_>> = rules.collect();
            let invalid = || InvalidValue::expected("rules such as cidr:192.0.2.0/24,ip:198.51.100.7");
            super::source_ranges(values, annotation.name, ranges.ok_or_else(invalid)?)
        },
    ),
    Row::unenforceable(
        digital_ocean!("deny-rules"),
        "denied clients, which are not supported; use `spec.loadBalancerSourceRanges`",
        Remedy::Removal,
    ),
    shared_rows::hostname(digital_ocean!("hostname")),
    Row::cloud_only(digital_ocean!("http3-port"), "QUIC, which is not supported"),
    Row::cloud_only(
        digital_ocean!("enable-backend-keepalive"),
        "reuse of connections to backends, which always takes place",
    ),
    Row::cloud_only(
        digital_ocean!("disable-lets-encrypt-dns-records"),
        "DNS of the cloud",
    ),
    Row::cloud_only(digital_ocean!("name"), "name of the cloud resource"),
    Row::cloud_only(digital_ocean!("size-slug"), BILLING),
    Row::cloud_only(digital_ocean!("size-unit"), BILLING),
    Row::cloud_only(digital_ocean!("type"), "type of the cloud load balancer"),
];

/// Sets the protocol of the listed ports.
fn ports(
    values: &mut AnnotationValues,
    annotation: Annotation<'_>,
    protocol: AppProtocol,
) -> Result<Effect, ApplyError> {
    let PortSet::Of(ports) = value::ports(annotation.value)? else {
        let expected = "numbers of the Service's ports, separated by commas";
        return Err(InvalidValue::expected(expected).into());
    };
    let ports = ports.into_iter().map(|port| (annotation.name, port, protocol));
    values.protocols.ports.extend(ports);
    Ok(Effect::Changed)
}
