//! Rows that several places have alike.

use edge::settings::{Balance, ProxyVersion};

use super::{hostname as put_hostname, nodes};
use crate::annotations::asked::Asks;
use crate::annotations::row::Row;
use crate::annotations::value::{self, megabits_per_second, word};

/// Certificates by Secrets.
pub(super) const fn certificates(name: &'static str) -> Row {
    Row::hard(name, "certificates, by the name of a Secret", |asked, field| {
        asked.certificates.put(field, value::secrets(field.text)?)
    })
}

/// Ports of HTTP that send their clients to HTTPS.
pub(super) const fn redirect_to_https(name: &'static str) -> Row {
    Row::hard(
        name,
        "ports of HTTP redirect clients to the first port of HTTPS",
        |asked, field| {
            asked
                .redirects_to_https
                .put_unless(field, value::bool(field.text)?, false)
        },
    )
}

/// A PROXY header of version 1, or none.
pub(super) const fn proxy_protocol(name: &'static str) -> Row {
    Row::hard(name, "PROXY header of version 1 for backends", |asked, field| {
        let version = value::bool(field.text)?.then_some(ProxyVersion::V1);
        asked.proxy_to_backends.put_unless(field, version, None)
    })
}

/// `round_robin` or `least_connections`.
pub(super) const fn algorithm(name: &'static str) -> Row {
    Row::hard(name, "balancing algorithm for new connections", |asked, field| {
        let ways = [
            ("round_robin", Balance::RoundRobin),
            ("least_connections", Balance::LeastConnections),
        ];
        asked
            .balance
            .put_unless(field, word(field.text, &ways)?, Balance::RoundRobin)
    })
}

/// The name of the cookie that keeps clients with their backend.
pub(super) const fn cookie_name(name: &'static str) -> Row {
    Row::tunes(name, "name of the cookie", |asked, field| {
        asked.cookie_name.put(field, value::cookie_name(field.text)?)
    })
}

/// Health checks by connection or by GET.
pub(super) const fn check_protocol(name: &'static str) -> Row {
    Row::soft(name, "protocol of health checks", |asked, field| {
        let protocols = [("tcp", Asks::Tcp), ("http", Asks::Http), ("https", Asks::Https)];
        asked.check.put(field, word(field.text, &protocols)?)
    })
}

/// The port that health checks ask.
pub(super) const fn check_port(name: &'static str) -> Row {
    Row::soft(name, "port of health checks", |asked, field| {
        asked.check_port.put(field, Some(value::port(field.text)?))
    })
}

/// The path that health checks ask for.
pub(super) const fn check_path(name: &'static str) -> Row {
    Row::soft(name, "path of the health check", |asked, field| {
        asked.check_path.put(field, value::path(field.text)?)
    })
}

/// The host that health checks ask for.
pub(super) const fn check_host(name: &'static str) -> Row {
    Row::tunes(name, "`Host` header of the health check", |asked, field| {
        asked.check_host.put(field, value::host(field.text)?)
    })
}

/// The name that the status tells (LBC-11).
pub(super) const fn hostname(name: &'static str) -> Row {
    Row::tunes(name, "hostname in the status", put_hostname)
}

/// Nodes by their labels, as pairs (LBC-13).
pub(super) const fn node_labels(name: &'static str) -> Row {
    Row::tunes(
        name,
        "labels of nodes that announce the address",
        |asked, field| nodes(asked, value::node_labels(field.text)?),
    )
}

/// Nodes by a selector (LBC-13).
pub(super) const fn node_selector(name: &'static str) -> Row {
    Row::tunes(
        name,
        "label selector of nodes that announce the address",
        |asked, field| nodes(asked, value::node_selector(field.text)?),
    )
}

/// The bandwidth that a cloud sells, in both directions.
pub(super) const fn bandwidth(name: &'static str) -> Row {
    Row::at_edge(
        name,
        "bandwidth of each direction, 1 to 5000 Mbit/s",
        |asked, field| {
            let rate = megabits_per_second(field.text, 1..=5_000)?;
            asked.received_bytes_per_second.put(field, rate)?;
            asked.sent_bytes_per_second.put(field, rate)
        },
    )
}
