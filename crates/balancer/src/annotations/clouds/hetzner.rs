//! Hetzner, whose balancer balances connections and requests.

use edge::settings::{Balance, ProxyVersion};
use ipam::pools::Family;

use super::Place;
use crate::annotations::asked::{Asks, Speaks, Sticks};
use crate::annotations::row::{Effect, Means, Row};
use crate::annotations::value::{self, number, span, word};

macro_rules! hetzner {
    ($name:literal) => {
        concat!("load-balancer.hetzner.cloud/", $name)
    };
}

pub(super) const PLACE: Place = Place {
    name: "Hetzner",
    prefixes: &["load-balancer.hetzner.cloud/"],
    rows: ROWS,
};

const SOLD: &str = "what the cloud sells";
const NETWORK: &str = "the cloud's networks";
const MANAGED: &str =
    "certificates that the cloud obtains; name a Secret with `portolan.dev/edge-certificates`";
const TOLD: &str = "the cloud's controller writes it itself";

const ROWS: &[Row] = &[
    Row::scope(hetzner!("disable-public-network"), &["true"], &["false"]),
    Row::assigner(
        hetzner!("private-ipv4"),
        "the IPv4 address",
        Means::AddressOf(Family::V4),
    ),
    Row::hard(
        hetzner!("protocol"),
        "what clients of all ports speak",
        |asked, field| {
            let protocols = [
                ("tcp", Speaks::Tcp),
                ("http", Speaks::Http),
                ("https", Speaks::Https),
            ];
            asked
                .speaks
                .put_unless(field, word(field.text, &protocols)?, Speaks::Tcp)
        },
    ),
    Row::hard(
        hetzner!("http-certificates"),
        "certificates, by the rule below",
        |asked, field| asked.certificates.put(field, value::secrets(field.text)?),
    ),
    Row::hard(
        hetzner!("http-redirect-http"),
        "ports of HTTP send clients to the first port of HTTPS",
        |asked, field| {
            asked
                .redirects_to_https
                .put_unless(field, value::bool(field.text)?, false)
        },
    ),
    Row::hard(
        hetzner!("uses-proxyprotocol"),
        "backends get a PROXY header of version 1",
        |asked, field| {
            let version = value::bool(field.text)?.then_some(ProxyVersion::V1);
            asked.proxy_to_backends.put_unless(field, version, None)
        },
    ),
    Row::hard(
        hetzner!("algorithm-type"),
        "which backend takes a new connection",
        |asked, field| {
            let ways = [
                ("round_robin", Balance::RoundRobin),
                ("least_connections", Balance::LeastConnections),
            ];
            asked
                .balance
                .put_unless(field, word(field.text, &ways)?, Balance::RoundRobin)
        },
    ),
    Row::hard(
        hetzner!("http-sticky-sessions"),
        "clients with our cookie stay with their backend",
        |asked, field| match value::bool(field.text)? {
            true => asked.sticks.put(field, Sticks::ByCookie),
            false => Ok(Effect::Plain),
        },
    ),
    Row::tunes(
        hetzner!("http-cookie-name"),
        "name of the cookie",
        |asked, field| asked.cookie_name.put(field, value::cookie_name(field.text)?),
    ),
    Row::tunes(
        hetzner!("http-cookie-lifetime"),
        "its age, as `5m` or in seconds",
        |asked, field| asked.cookie_max_age.put(field, span(field.text)?),
    ),
    Row::soft(
        hetzner!("health-check-protocol"),
        "how backends are asked",
        |asked, field| {
            let protocols = [("tcp", Asks::Tcp), ("http", Asks::Http), ("https", Asks::Https)];
            asked.check.put(field, word(field.text, &protocols)?)
        },
    ),
    Row::soft(
        hetzner!("health-check-port"),
        "port that is asked",
        |asked, field| asked.check_port.put(field, Some(value::port(field.text)?)),
    ),
    Row::soft(
        hetzner!("health-check-interval"),
        "between checks, as `15s`",
        |asked, field| asked.check_interval.put(field, span(field.text)?),
    ),
    Row::soft(hetzner!("health-check-timeout"), "as `10s`", |asked, field| {
        asked.check_timeout.put(field, span(field.text)?)
    }),
    Row::soft(
        hetzner!("health-check-retries"),
        "bad answers until a backend is not used",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=100)?),
    ),
    Row::tunes(
        hetzner!("health-check-http-domain"),
        "`Host` of the GET",
        |asked, field| asked.check_host.put(field, value::host(field.text)?),
    ),
    Row::soft(
        hetzner!("health-check-http-path"),
        "path of the GET",
        |asked, field| asked.check_path.put(field, value::path(field.text)?),
    ),
    Row::tunes(
        hetzner!("http-status-codes"),
        "statuses that are good, as `2??,3??`",
        |asked, field| asked.check_statuses.put(field, value::statuses(field.text)?),
    ),
    Row::checked(
        hetzner!("health-check-http-validate-certificate"),
        "certificates of backends are not verified",
        |text| value::bool(text).map(drop),
    ),
    Row::tunes(
        hetzner!("hostname"),
        "a name in the status beside the address",
        super::hostname,
    ),
    Row::tunes(
        hetzner!("node-selector"),
        "announced from nodes that the selector matches",
        |asked, field| super::nodes(asked, value::node_selector(field.text)?),
    ),
    Row::checked(hetzner!("certificate-type"), MANAGED, |text| {
        word(text, &[("uploaded", ()), ("managed", ())])
    }),
    Row::nothing(hetzner!("http-managed-certificate-name"), MANAGED),
    Row::nothing(hetzner!("http-managed-certificate-domains"), MANAGED),
    Row::nothing(hetzner!("id"), TOLD),
    Row::nothing(hetzner!("ipv4"), TOLD),
    Row::nothing(hetzner!("ipv4-rdns"), "the cloud's DNS"),
    Row::nothing(hetzner!("ipv6"), TOLD),
    Row::nothing(hetzner!("ipv6-rdns"), "the cloud's DNS"),
    Row::nothing(hetzner!("ipv6-disabled"), "`spec.ipFamilies` says that"),
    Row::nothing(hetzner!("name"), "the Service's own name is used everywhere"),
    Row::nothing(
        hetzner!("disable-private-ingress"),
        "the status always tells the address",
    ),
    Row::nothing(hetzner!("use-private-ip"), NETWORK),
    Row::nothing(hetzner!("network-zone"), NETWORK),
    Row::nothing(hetzner!("location"), NETWORK),
    Row::nothing(hetzner!("type"), SOLD),
];
