//! Annotations of Hetzner Cloud, whose load balancer is a TCP and HTTP proxy.

use ipam::pools::Family;

use super::{Provider, shared_rows};
use crate::annotations::row::{AnnotationMeaning, Effect, Row};
use crate::annotations::value::{self, duration, keyword, number};
use crate::annotations::values::{AppProtocol, StickyMode};

macro_rules! hetzner {
    ($name:literal) => {
        concat!("load-balancer.hetzner.cloud/", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "Hetzner",
    prefixes: &["load-balancer.hetzner.cloud/"],
    rows: ROWS,
};

const BILLING: &str = "product of the cloud";
const NETWORK: &str = "networks of the cloud";
const MANAGED: &str = "certificates issued by the cloud; use `portolan.dev/edge-certificates`";
const WRITTEN_BY_CONTROLLER: &str = "written by the cloud's controller";

const ROWS: &[Row] = &[
    Row::scope(hetzner!("disable-public-network"), &["true"], &["false"]),
    Row::assigner(
        hetzner!("private-ipv4"),
        "requests this IPv4 address",
        AnnotationMeaning::FamilyAddress(Family::V4),
    ),
    Row::requires_edge(
        hetzner!("protocol"),
        "protocol of all ports",
        |values, annotation| {
            let protocols = [
                ("tcp", AppProtocol::Tcp),
                ("http", AppProtocol::Http),
                ("https", AppProtocol::Https),
            ];
            values.protocols.all_ports.set_with_default(
                annotation,
                keyword(annotation.value, &protocols)?,
                AppProtocol::Tcp,
            )
        },
    ),
    shared_rows::certificates(hetzner!("http-certificates")),
    shared_rows::redirect_to_https(hetzner!("http-redirect-http")),
    shared_rows::proxy_protocol(hetzner!("uses-proxyprotocol")),
    shared_rows::algorithm(hetzner!("algorithm-type")),
    Row::requires_edge(
        hetzner!("http-sticky-sessions"),
        "sticky sessions by cookie",
        |values, annotation| {
            if !value::bool(annotation.value)? {
                return Ok(Effect::Unchanged);
            }
            values.stickiness.mode.set(annotation, StickyMode::Cookie)
        },
    ),
    shared_rows::cookie_name(hetzner!("http-cookie-name")),
    Row::configures_edge(
        hetzner!("http-cookie-lifetime"),
        "lifetime of the cookie, such as `5m` or in seconds",
        |values, annotation| {
            values
                .stickiness
                .cookie_max_age
                .set(annotation, duration(annotation.value)?)
        },
    ),
    shared_rows::check_protocol(hetzner!("health-check-protocol")),
    shared_rows::check_port(hetzner!("health-check-port")),
    Row::prefers_edge(
        hetzner!("health-check-interval"),
        "interval of health checks, such as `15s`",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, duration(annotation.value)?)
        },
    ),
    Row::prefers_edge(
        hetzner!("health-check-timeout"),
        "timeout of a health check, such as `10s`",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, duration(annotation.value)?)
        },
    ),
    Row::prefers_edge(
        hetzner!("health-check-retries"),
        "failures until a backend is unhealthy",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 1..=100)?)
        },
    ),
    shared_rows::check_host(hetzner!("health-check-http-domain")),
    shared_rows::check_path(hetzner!("health-check-http-path")),
    Row::configures_edge(
        hetzner!("http-status-codes"),
        "statuses of a healthy backend, such as `2??,3??`",
        |values, annotation| {
            values
                .health_check
                .expected_statuses
                .set(annotation, value::statuses(annotation.value)?)
        },
    ),
    Row::cloud_only_checked(
        hetzner!("health-check-http-validate-certificate"),
        "verification of backend certificates, which does not take place",
        |text| value::bool(text).map(drop),
    ),
    shared_rows::hostname(hetzner!("hostname")),
    shared_rows::node_selector(hetzner!("node-selector")),
    Row::cloud_only_checked(hetzner!("certificate-type"), MANAGED, |text| {
        keyword(text, &[("uploaded", ()), ("managed", ())])
    }),
    Row::cloud_only(hetzner!("http-managed-certificate-name"), MANAGED),
    Row::cloud_only(hetzner!("http-managed-certificate-domains"), MANAGED),
    Row::cloud_only(hetzner!("id"), WRITTEN_BY_CONTROLLER),
    Row::cloud_only(hetzner!("ipv4"), WRITTEN_BY_CONTROLLER),
    Row::cloud_only(hetzner!("ipv4-rdns"), "DNS of the cloud"),
    Row::cloud_only(hetzner!("ipv6"), WRITTEN_BY_CONTROLLER),
    Row::cloud_only(hetzner!("ipv6-rdns"), "DNS of the cloud"),
    Row::cloud_only(hetzner!("ipv6-disabled"), "use `spec.ipFamilies`"),
    Row::cloud_only(hetzner!("name"), "name of the cloud resource"),
    Row::cloud_only(
        hetzner!("disable-private-ingress"),
        "visibility of the address in the status, which is always set",
    ),
    Row::cloud_only(hetzner!("use-private-ip"), NETWORK),
    Row::cloud_only(hetzner!("network-zone"), NETWORK),
    Row::cloud_only(hetzner!("location"), NETWORK),
    Row::cloud_only(hetzner!("type"), BILLING),
];
