//! Rows that several providers share.

use edge::settings::{Balance, ProxyVersion};

use super::{hostname as set_hostname, nodes};
use crate::annotations::row::Row;
use crate::annotations::value::{self, keyword, megabits_per_second};
use crate::annotations::values::CheckProtocol;

/// Certificates in Secrets.
pub(super) const fn certificates(name: &'static str) -> Row {
    Row::requires_edge(
        name,
        "certificates, by the name of a Secret",
        |values, annotation| {
            values
                .tls
                .certificates
                .set(annotation, value::secrets(annotation.value)?)
        },
    )
}

/// Redirect of HTTP ports to HTTPS.
pub(super) const fn redirect_to_https(name: &'static str) -> Row {
    Row::requires_edge(
        name,
        "ports of HTTP redirect clients to the first port of HTTPS",
        |values, annotation| {
            values.protocols.redirects_to_https.set_with_default(
                annotation,
                value::bool(annotation.value)?,
                false,
            )
        },
    )
}

/// PROXY protocol version 1 to backends.
pub(super) const fn proxy_protocol(name: &'static str) -> Row {
    Row::requires_edge(
        name,
        "PROXY header of version 1 for backends",
        |values, annotation| {
            let version = value::bool(annotation.value)?.then_some(ProxyVersion::V1);
            values
                .proxy_protocol
                .to_backends
                .set_with_default(annotation, version, None)
        },
    )
}

/// Load-balancing algorithm: `round_robin` or `least_connections`.
pub(super) const fn algorithm(name: &'static str) -> Row {
    Row::requires_edge(
        name,
        "balancing algorithm for new connections",
        |values, annotation| {
            let algorithms = [
                ("round_robin", Balance::RoundRobin),
                ("least_connections", Balance::LeastConnections),
            ];
            values.balance.set_with_default(
                annotation,
                keyword(annotation.value, &algorithms)?,
                Balance::RoundRobin,
            )
        },
    )
}

/// Name of the cookie of sticky sessions.
pub(super) const fn cookie_name(name: &'static str) -> Row {
    Row::configures_edge(name, "name of the cookie", |values, annotation| {
        values
            .stickiness
            .cookie_name
            .set(annotation, value::cookie_name(annotation.value)?)
    })
}

/// Protocol of health checks: `tcp`, `http` or `https`.
pub(super) const fn check_protocol(name: &'static str) -> Row {
    Row::prefers_edge(name, "protocol of health checks", |values, annotation| {
        let protocols = [
            ("tcp", CheckProtocol::Tcp),
            ("http", CheckProtocol::Http),
            ("https", CheckProtocol::Https),
        ];
        values
            .health_check
            .protocol
            .set(annotation, keyword(annotation.value, &protocols)?)
    })
}

/// Port of health checks.
pub(super) const fn check_port(name: &'static str) -> Row {
    Row::prefers_edge(name, "port of health checks", |values, annotation| {
        values
            .health_check
            .port
            .set(annotation, Some(value::port(annotation.value)?))
    })
}

/// Path of health checks.
pub(super) const fn check_path(name: &'static str) -> Row {
    Row::prefers_edge(name, "path of the health check", |values, annotation| {
        values
            .health_check
            .path
            .set(annotation, value::path(annotation.value)?)
    })
}

/// `Host` header of health checks.
pub(super) const fn check_host(name: &'static str) -> Row {
    Row::configures_edge(name, "`Host` header of the health check", |values, annotation| {
        values
            .health_check
            .host
            .set(annotation, value::host(annotation.value)?)
    })
}

/// Host name in the status (LBC-11).
pub(super) const fn hostname(name: &'static str) -> Row {
    Row::direct(name, "hostname in the status", set_hostname)
}

/// Nodes that announce the addresses, by labels as pairs (LBC-13).
pub(super) const fn node_labels(name: &'static str) -> Row {
    Row::direct(
        name,
        "labels of nodes that announce the address",
        |values, annotation| nodes(values, value::node_labels(annotation.value)?),
    )
}

/// Nodes that announce the addresses, by a selector (LBC-13).
pub(super) const fn node_selector(name: &'static str) -> Row {
    Row::direct(
        name,
        "label selector of nodes that announce the address",
        |values, annotation| nodes(values, value::node_selector(annotation.value)?),
    )
}

/// Bandwidth that a cloud bills, for each direction.
pub(super) const fn bandwidth(name: &'static str) -> Row {
    Row::edge_only(
        name,
        "bandwidth of each direction, 1 to 5000 Mbit/s",
        |values, annotation| {
            let rate = megabits_per_second(annotation.value, 1..=5_000)?;
            values.limits.received_bytes_per_second.set(annotation, rate)?;
            values.limits.sent_bytes_per_second.set(annotation, rate)
        },
    )
}
