//! Annotations of OpenStack Octavia, whose load balancer is a TCP proxy.

use edge::settings::ProxyVersion;

use super::{Provider, shared_rows};
use crate::annotations::row::{Effect, Row};
use crate::annotations::value::{self, keyword, milliseconds, number, seconds};
use crate::annotations::values::AppProtocol;

macro_rules! openstack {
    ($name:literal) => {
        concat!("loadbalancer.openstack.org/", $name)
    };
}

/// Maximum timeout: one day.
const DAY_MILLISECONDS: u32 = 86_400_000;

pub(super) const PROVIDER: Provider = Provider {
    name: "OpenStack",
    prefixes: &[
        "loadbalancer.openstack.org/",
        "service.beta.kubernetes.io/openstack-",
    ],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";
const RESOURCES: &str = "resources of the cloud";

const ROWS: &[Row] = &[
    Row::scope(
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        &["true"],
        &["false"],
    ),
    Row::requires_edge(
        openstack!("proxy-protocol"),
        "PROXY header for backends: `true` and `v1`, or `v2`",
        |values, annotation| {
            let versions = [
                ("true", Some(ProxyVersion::V1)),
                ("v1", Some(ProxyVersion::V1)),
                ("v2", Some(ProxyVersion::V2)),
                ("false", None),
            ];
            values.proxy_protocol.to_backends.set_with_default(
                annotation,
                keyword(annotation.value, &versions)?,
                None,
            )
        },
    ),
    Row::requires_edge(
        openstack!("x-forwarded-for"),
        "HTTP with `X-Forwarded-For` for backends",
        |values, annotation| {
            if !value::bool(annotation.value)? {
                return Ok(Effect::Unchanged);
            }
            values.protocols.all_ports.set(annotation, AppProtocol::Http)
        },
    ),
    Row::requires_edge(
        openstack!("connection-limit"),
        "open connections; -1 for no limit",
        |values, annotation| {
            if annotation.value == "-1" {
                return Ok(Effect::Unchanged);
            }
            let connections_max = number(annotation.value, 1..=10_000_000)
                .map_err(|error| error.describe(|expected| format!("-1 or {expected}")))?;
            values.limits.connections_max.set(annotation, connections_max)
        },
    ),
    Row::prefers_edge(
        openstack!("timeout-client-data"),
        "idle timeout, in milliseconds",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, milliseconds(annotation.value, 1..=DAY_MILLISECONDS)?)
        },
    ),
    Row::configures_edge(
        openstack!("timeout-member-connect"),
        "timeout of connections to backends, in milliseconds",
        |values, annotation| {
            values
                .timeouts
                .connect
                .set(annotation, milliseconds(annotation.value, 1..=300_000)?)
        },
    ),
    Row::cloud_only_checked(
        openstack!("timeout-member-data"),
        "idle timeout towards backends; `timeout-client-data` applies to both directions",
        |text| milliseconds(text, 0..=DAY_MILLISECONDS).map(drop),
    ),
    Row::cloud_only_checked(
        openstack!("timeout-tcp-inspect"),
        "delay for inspection, which does not take place",
        |text| milliseconds(text, 0..=DAY_MILLISECONDS).map(drop),
    ),
    Row::prefers_edge(
        openstack!("enable-health-monitor"),
        "enable health checks",
        |values, annotation| {
            values
                .health_check
                .is_enabled
                .set_with_default(annotation, value::bool(annotation.value)?, false)
        },
    ),
    Row::configures_edge(
        openstack!("health-monitor-delay"),
        "interval of health checks in seconds",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 1..=3_600)?)
        },
    ),
    Row::configures_edge(
        openstack!("health-monitor-timeout"),
        "timeout of a health check in seconds",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 1..=300)?)
        },
    ),
    Row::configures_edge(
        openstack!("health-monitor-max-retries"),
        "successes until a backend is healthy, 1 to 10",
        |values, annotation| {
            values
                .health_check
                .healthy_threshold
                .set(annotation, number(annotation.value, 1..=10)?)
        },
    ),
    Row::configures_edge(
        openstack!("health-monitor-max-retries-down"),
        "failures until a backend is unhealthy, 1 to 10",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 1..=10)?)
        },
    ),
    Row::requires_edge(
        openstack!("default-tls-container-ref"),
        "certificate: a Secret with the name in the last part; protocols as in `edge-protocol`",
        |values, annotation| {
            let name = api::edge_secret::last_part(annotation.value);
            values.tls.certificates.set(annotation, value::secrets(name)?)
        },
    ),
    shared_rows::hostname(openstack!("hostname")),
    shared_rows::node_labels(openstack!("node-selector")),
    Row::cloud_only(
        openstack!("keep-floatingip"),
        "retention of addresses; an address is released with its Service",
    ),
    Row::cloud_only(openstack!("load-balancer-id"), RESOURCES),
    Row::cloud_only(
        openstack!("load-balancer-address"),
        "written by Octavia's controller",
    ),
    Row::cloud_only(openstack!("class"), RESOURCES),
    Row::cloud_only(openstack!("flavor-id"), RESOURCES),
    Row::cloud_only(openstack!("availability-zone"), RESOURCES),
    Row::cloud_only(openstack!("floating-network-id"), NETWORK),
    Row::cloud_only(openstack!("floating-subnet"), NETWORK),
    Row::cloud_only(openstack!("floating-subnet-id"), NETWORK),
    Row::cloud_only(openstack!("floating-subnet-tags"), NETWORK),
    Row::cloud_only(openstack!("network-id"), NETWORK),
    Row::cloud_only(openstack!("subnet-id"), NETWORK),
    Row::cloud_only(openstack!("member-subnet-id"), NETWORK),
    Row::cloud_only(openstack!("port-id"), NETWORK),
];
