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

const SOLD: &str = "product of the cloud";
const NETWORK: &str = "networks of the cloud";
const MANAGED: &str = "certificates issued by the cloud; use `portolan.dev/edge-certificates`";
const TOLD: &str = "written by the cloud's controller";

const ROWS: &[Row] = &[
    Row::scope(hetzner!("disable-public-network"), &["true"], &["false"]),
    Row::assigner(
        hetzner!("private-ipv4"),
        "requests this IPv4 address",
        Means::AddressOf(Family::V4),
    ),
    Row::hard(hetzner!("protocol"), "protocol of all ports", |asked, field| {
        let protocols = [
            ("tcp", Speaks::Tcp),
            ("http", Speaks::Http),
            ("https", Speaks::Https),
        ];
        asked
            .speaks
            .put_unless(field, word(field.text, &protocols)?, Speaks::Tcp)
    }),
    alike::certificates(hetzner!("http-certificates")),
    alike::redirect_to_https(hetzner!("http-redirect-http")),
    alike::proxy_protocol(hetzner!("uses-proxyprotocol")),
    alike::algorithm(hetzner!("algorithm-type")),
    Row::hard(
        hetzner!("http-sticky-sessions"),
        "sticky sessions by cookie",
        |asked, field| match value::bool(field.text)? {
            true => asked.sticks.put(field, Sticks::ByCookie),
            false => Ok(Effect::Plain),
        },
    ),
    alike::cookie_name(hetzner!("http-cookie-name")),
    Row::tunes(
        hetzner!("http-cookie-lifetime"),
        "lifetime of the cookie, such as `5m` or in seconds",
        |asked, field| asked.cookie_max_age.put(field, span(field.text)?),
    ),
    alike::check_protocol(hetzner!("health-check-protocol")),
    alike::check_port(hetzner!("health-check-port")),
    Row::soft(
        hetzner!("health-check-interval"),
        "interval of health checks, such as `15s`",
        |asked, field| asked.check_interval.put(field, span(field.text)?),
    ),
    Row::soft(
        hetzner!("health-check-timeout"),
        "timeout of a health check, such as `10s`",
        |asked, field| asked.check_timeout.put(field, span(field.text)?),
    ),
    Row::soft(
        hetzner!("health-check-retries"),
        "failures until a backend is unhealthy",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=100)?),
    ),
    alike::check_host(hetzner!("health-check-http-domain")),
    alike::check_path(hetzner!("health-check-http-path")),
    Row::tunes(
        hetzner!("http-status-codes"),
        "statuses of a healthy backend, such as `2??,3??`",
        |asked, field| asked.check_statuses.put(field, value::statuses(field.text)?),
    ),
    Row::checked(
        hetzner!("health-check-http-validate-certificate"),
        "verification of backend certificates, which does not take place",
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
    Row::nothing(hetzner!("ipv4-rdns"), "DNS of the cloud"),
    Row::nothing(hetzner!("ipv6"), TOLD),
    Row::nothing(hetzner!("ipv6-rdns"), "DNS of the cloud"),
    Row::nothing(hetzner!("ipv6-disabled"), "use `spec.ipFamilies`"),
    Row::nothing(hetzner!("name"), "name of the cloud resource"),
    Row::nothing(
        hetzner!("disable-private-ingress"),
        "visibility of the address in the status, which is always set",
    ),
    Row::nothing(hetzner!("use-private-ip"), NETWORK),
    Row::nothing(hetzner!("network-zone"), NETWORK),
    Row::nothing(hetzner!("location"), NETWORK),
    Row::nothing(hetzner!("type"), SOLD),
];
