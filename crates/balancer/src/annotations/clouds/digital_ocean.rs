//! DigitalOcean, whose balancer balances connections and requests.

use super::{Place, alike};
use crate::annotations::asked::{Asked, Speaks, Sticks};
use crate::annotations::row::{Effect, Field, Refusal, Remedy, Row};
use crate::annotations::value::{self, PortSet, number, seconds, word};

macro_rules! digital_ocean {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/do-loadbalancer-", $name)
    };
}

pub(super) const PLACE: Place = Place {
    name: "DigitalOcean",
    prefixes: &["service.beta.kubernetes.io/do-loadbalancer-"],
    rows: ROWS,
};

const SOLD: &str = "product of the cloud";

const ROWS: &[Row] = &[
    Row::scope(digital_ocean!("network"), &["INTERNAL"], &["EXTERNAL"]),
    Row::hard(
        digital_ocean!("protocol"),
        "protocol of all ports",
        |asked, field| {
            let protocols = [
                ("tcp", Speaks::Tcp),
                ("http", Speaks::Http),
                ("https", Speaks::Https),
                ("http2", Speaks::Https),
            ];
            asked
                .speaks
                .put_unless(field, word(field.text, &protocols)?, Speaks::Tcp)
        },
    ),
    Row::hard(digital_ocean!("http-ports"), "ports of HTTP", |asked, field| {
        ports(asked, field, Speaks::Http)
    }),
    Row::hard(digital_ocean!("tls-ports"), "ports of HTTPS", |asked, field| {
        ports(asked, field, Speaks::Https)
    }),
    Row::hard(
        digital_ocean!("http2-ports"),
        "ports of HTTPS, which includes HTTP/2",
        |asked, field| ports(asked, field, Speaks::Https),
    ),
    Row::tunes(
        digital_ocean!("tls-passthrough"),
        "ports of HTTPS relay bytes without terminating TLS",
        |asked, field| asked.tls_passes_through.put(field, value::bool(field.text)?),
    ),
    alike::certificates(digital_ocean!("certificate-id")),
    alike::redirect_to_https(digital_ocean!("redirect-http-to-https")),
    alike::proxy_protocol(digital_ocean!("enable-proxy-protocol")),
    alike::algorithm(digital_ocean!("algorithm")),
    Row::hard(
        digital_ocean!("sticky-sessions-type"),
        "sticky sessions: `cookies` or `none`",
        |asked, field| {
            let kinds = [("none", Sticks::Never), ("cookies", Sticks::ByCookie)];
            asked
                .sticks
                .put_unless(field, word(field.text, &kinds)?, Sticks::Never)
        },
    ),
    alike::cookie_name(digital_ocean!("sticky-sessions-cookie-name")),
    Row::tunes(
        digital_ocean!("sticky-sessions-cookie-ttl"),
        "lifetime of the cookie in seconds",
        |asked, field| asked.cookie_max_age.put(field, seconds(field.text, 1..=34_650)?),
    ),
    Row::soft(
        digital_ocean!("http-idle-timeout-seconds"),
        "idle timeout, 30 to 600 seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 30..=600)?),
    ),
    alike::check_protocol(digital_ocean!("healthcheck-protocol")),
    alike::check_port(digital_ocean!("healthcheck-port")),
    alike::check_path(digital_ocean!("healthcheck-path")),
    Row::soft(
        digital_ocean!("healthcheck-check-interval-seconds"),
        "interval of health checks, 3 to 300 seconds",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 3..=300)?),
    ),
    Row::soft(
        digital_ocean!("healthcheck-response-timeout-seconds"),
        "timeout of a health check, 3 to 300 seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 3..=300)?),
    ),
    Row::soft(
        digital_ocean!("healthcheck-unhealthy-threshold"),
        "failures until a backend is unhealthy, 2 to 10",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 2..=10)?),
    ),
    Row::soft(
        digital_ocean!("healthcheck-healthy-threshold"),
        "successes until a backend is healthy, 2 to 10",
        |asked, field| asked.check_healthy.put(field, number(field.text, 2..=10)?),
    ),
    Row::restricts(
        digital_ocean!("allow-rules"),
        "allowed clients, such as `cidr:192.0.2.0/24,ip:198.51.100.7`",
        |asked, field| {
            let rules = field.text.split(',').map(|rule| {
                let (_, range) = rule
                    .trim()
                    .split_once(':')
                    .filter(|(kind, _)| matches!(*kind, "ip" | "cidr"))?;
                value::range(range)
            });
            let ranges: Option<Vec<_>> = rules.collect();
            let allowed = || "rules such as cidr:192.0.2.0/24,ip:198.51.100.7".to_owned();
            super::source_ranges(asked, field.name, ranges.ok_or_else(allowed)?)
        },
    ),
    Row::unenforceable(
        digital_ocean!("deny-rules"),
        "denied clients, which are not supported; use `spec.loadBalancerSourceRanges`",
        Remedy::Removal,
    ),
    alike::hostname(digital_ocean!("hostname")),
    Row::nothing(digital_ocean!("http3-port"), "QUIC, which is not supported"),
    Row::nothing(
        digital_ocean!("enable-backend-keepalive"),
        "reuse of connections to backends, which always takes place",
    ),
    Row::nothing(
        digital_ocean!("disable-lets-encrypt-dns-records"),
        "DNS of the cloud",
    ),
    Row::nothing(digital_ocean!("name"), "name of the cloud resource"),
    Row::nothing(digital_ocean!("size-slug"), SOLD),
    Row::nothing(digital_ocean!("size-unit"), SOLD),
    Row::nothing(digital_ocean!("type"), "type of the cloud load balancer"),
];

fn ports(asked: &mut Asked, field: Field<'_>, speaks: Speaks) -> Result<Effect, Refusal> {
    let PortSet::Of(ports) = value::ports(field.text)? else {
        return Err(Refusal::Value(
            "numbers of the Service's ports, separated by commas".to_owned(),
        ));
    };
    let speaking = ports.into_iter().map(|port| (field.name, port, speaks));
    asked.ports_speak.extend(speaking);
    Ok(Effect::More)
}
