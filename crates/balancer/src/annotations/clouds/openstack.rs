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

const NETWORK: &str = "the cloud's networks";
const RESOURCES: &str = "the cloud's resources";

const ROWS: &[Row] = &[
    Row::scope(
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        &["true"],
        &["false"],
    ),
    Row::hard(
        openstack!("proxy-protocol"),
        "backends get a PROXY header: `true` and `v1`, or `v2`",
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
        "clients speak HTTP, and backends get `X-Forwarded-For`",
        |asked, field| match value::bool(field.text)? {
            true => asked.speaks.put(field, Speaks::Http),
            false => Ok(Effect::Plain),
        },
    ),
    Row::hard(
        openstack!("connection-limit"),
        "connections at once; -1 is no limit",
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
        "how long a connection may be silent, in milliseconds",
        |asked, field| {
            asked
                .idle_timeout
                .put(field, milliseconds(field.text, 1..=DAY_MILLISECONDS)?)
        },
    ),
    Row::tunes(
        openstack!("timeout-member-connect"),
        "how long a try to connect to a backend may take, in milliseconds",
        |asked, field| {
            asked
                .connect_timeout
                .put(field, milliseconds(field.text, 1..=300_000)?)
        },
    ),
    Row::checked(
        openstack!("timeout-member-data"),
        "`timeout-client-data` is of both directions",
        |text| milliseconds(text, 0..=DAY_MILLISECONDS).map(drop),
    ),
    Row::checked(
        openstack!("timeout-tcp-inspect"),
        "nothing is waited for to be inspected",
        |text| milliseconds(text, 0..=DAY_MILLISECONDS).map(drop),
    ),
    Row::soft(
        openstack!("enable-health-monitor"),
        "whether backends are asked",
        |asked, field| {
            asked
                .is_checked
                .put_unless(field, value::bool(field.text)?, false)
        },
    ),
    Row::tunes(
        openstack!("health-monitor-delay"),
        "seconds between checks",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 1..=3_600)?),
    ),
    Row::tunes(
        openstack!("health-monitor-timeout"),
        "seconds that an answer may take",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::tunes(
        openstack!("health-monitor-max-retries"),
        "1 to 10 good answers until a backend is used again",
        |asked, field| asked.check_healthy.put(field, number(field.text, 1..=10)?),
    ),
    Row::tunes(
        openstack!("health-monitor-max-retries-down"),
        "1 to 10 bad answers until a backend is not used",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=10)?),
    ),
    Row::hard(
        openstack!("default-tls-container-ref"),
        "TLS ends with the Secret that its last part names; clients and backends as `edge-protocol` says",
        |asked, field| {
            let name = api::edge_secret::last_part(field.text);
            asked.certificates.put(field, value::secrets(name)?)
        },
    ),
    alike::hostname(openstack!("hostname")),
    alike::node_labels(openstack!("node-selector")),
    Row::nothing(
        openstack!("keep-floatingip"),
        "addresses are free again when their Service is gone",
    ),
    Row::nothing(openstack!("load-balancer-id"), RESOURCES),
    Row::nothing(
        openstack!("load-balancer-address"),
        "Octavia's controller writes it itself",
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
