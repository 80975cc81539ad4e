//! Hetzner, whose balancer balances connections and requests.

use ipam::pools::Family;

use super::{Place, alike};
use crate::annotations::asked::{Speaks, Sticks};
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
    alike::certificates(hetzner!("http-certificates")),
    alike::redirect_to_https(hetzner!("http-redirect-http")),
    alike::proxy_protocol(hetzner!("uses-proxyprotocol")),
    alike::algorithm(hetzner!("algorithm-type")),
    Row::hard(
        hetzner!("http-sticky-sessions"),
        "clients with our cookie stay with their backend",
        |asked, field| match value::bool(field.text)? {
            true => asked.sticks.put(field, Sticks::ByCookie),
            false => Ok(Effect::Plain),
        },
    ),
    alike::cookie_name(hetzner!("http-cookie-name")),
    Row::tunes(
        hetzner!("http-cookie-lifetime"),
        "its age, as `5m` or in seconds",
        |asked, field| asked.cookie_max_age.put(field, span(field.text)?),
    ),
    alike::check_protocol(hetzner!("health-check-protocol")),
    alike::check_port(hetzner!("health-check-port")),
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
    alike::check_host(hetzner!("health-check-http-domain")),
    alike::check_path(hetzner!("health-check-http-path")),
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
    alike::hostname(hetzner!("hostname")),
    alike::node_selector(hetzner!("node-selector")),
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
