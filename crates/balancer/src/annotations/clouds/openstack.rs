//! OpenStack's Octavia, whose balancers balance connections.

use edge::settings::ProxyVersion;

use super::{Place, alike};
use crate::annotations::asked::Speaks;
use crate::annotations::row::{Effect, Row};
use crate::annotations::value::{self, milliseconds, number, seconds, word};

macro_rules! openstack {
    ($name:literal) => {
        concat!("loadbalancer.openstack.org/", $name)
    };
}

/// A day: longer times are not meant.
const DAY_MILLISECONDS: u32 = 86_400_000;

pub(super) const PLACE: Place = Place {
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
    Row::hard(
        openstack!("proxy-protocol"),
        "PROXY header for backends: `true` and `v1`, or `v2`",
        |asked, field| {
            let versions = [
                ("true", Some(ProxyVersion::V1)),
                ("v1", Some(ProxyVersion::V1)),
                ("v2", Some(ProxyVersion::V2)),
                ("false", None),
            ];
            asked
                .proxy_to_backends
                .put_unless(field, word(field.text, &versions)?, None)
        },
    ),
    Row::hard(
        openstack!("x-forwarded-for"),
        "HTTP with `X-Forwarded-For` for backends",
        |asked, field| match value::bool(field.text)? {
            true => asked.speaks.put(field, Speaks::Http),
            false => Ok(Effect::Plain),
        },
    ),
    Row::hard(
        openstack!("connection-limit"),
        "open connections; -1 for no limit",
        |asked, field| {
            if field.text == "-1" {
                return Ok(Effect::Plain);
            }
            let most = number(field.text, 1..=10_000_000).map_err(|allowed| format!("-1 or {allowed}"))?;
            asked.connections_max.put(field, most)
        },
    ),
    Row::soft(
        openstack!("timeout-client-data"),
        "idle timeout, in milliseconds",
        |asked, field| {
            asked
                .idle_timeout
                .put(field, milliseconds(field.text, 1..=DAY_MILLISECONDS)?)
        },
    ),
    Row::tunes(
        openstack!("timeout-member-connect"),
        "timeout of connections to backends, in milliseconds",
        |asked, field| {
            asked
                .connect_timeout
                .put(field, milliseconds(field.text, 1..=300_000)?)
        },
    ),
    Row::checked(
        openstack!("timeout-member-data"),
        "idle timeout towards backends; `timeout-client-data` applies to both directions",
        |text| milliseconds(text, 0..=DAY_MILLISECONDS).map(drop),
    ),
    Row::checked(
        openstack!("timeout-tcp-inspect"),
        "delay for inspection, which does not take place",
        |text| milliseconds(text, 0..=DAY_MILLISECONDS).map(drop),
    ),
    Row::soft(
        openstack!("enable-health-monitor"),
        "enable health checks",
        |asked, field| {
            asked
                .is_checked
                .put_unless(field, value::bool(field.text)?, false)
        },
    ),
    Row::tunes(
        openstack!("health-monitor-delay"),
        "interval of health checks in seconds",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 1..=3_600)?),
    ),
    Row::tunes(
        openstack!("health-monitor-timeout"),
        "timeout of a health check in seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::tunes(
        openstack!("health-monitor-max-retries"),
        "successes until a backend is healthy, 1 to 10",
        |asked, field| asked.check_healthy.put(field, number(field.text, 1..=10)?),
    ),
    Row::tunes(
        openstack!("health-monitor-max-retries-down"),
        "failures until a backend is unhealthy, 1 to 10",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=10)?),
    ),
    Row::hard(
        openstack!("default-tls-container-ref"),
        "certificate: a Secret with the name in the last part; protocols as in `edge-protocol`",
        |asked, field| {
            let name = api::edge_secret::last_part(field.text);
            asked.certificates.put(field, value::secrets(name)?)
        },
    ),
    alike::hostname(openstack!("hostname")),
    alike::node_labels(openstack!("node-selector")),
    Row::nothing(
        openstack!("keep-floatingip"),
        "retention of addresses; an address is released with its Service",
    ),
    Row::nothing(openstack!("load-balancer-id"), RESOURCES),
    Row::nothing(
        openstack!("load-balancer-address"),
        "written by Octavia's controller",
    ),
    Row::nothing(openstack!("class"), RESOURCES),
    Row::nothing(openstack!("flavor-id"), RESOURCES),
    Row::nothing(openstack!("availability-zone"), RESOURCES),
    Row::nothing(openstack!("floating-network-id"), NETWORK),
    Row::nothing(openstack!("floating-subnet"), NETWORK),
    Row::nothing(openstack!("floating-subnet-id"), NETWORK),
    Row::nothing(openstack!("floating-subnet-tags"), NETWORK),
    Row::nothing(openstack!("network-id"), NETWORK),
    Row::nothing(openstack!("subnet-id"), NETWORK),
    Row::nothing(openstack!("member-subnet-id"), NETWORK),
    Row::nothing(openstack!("port-id"), NETWORK),
];
