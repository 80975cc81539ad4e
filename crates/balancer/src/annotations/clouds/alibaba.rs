//! Alibaba.

use edge::settings::{Balance, ProxyVersion, TlsPolicy};

use super::{Place, alike};
use crate::annotations::asked::{Asked, Asks, Speaks, Sticks};
use crate::annotations::row::{Effect, Field, Refusal, Remedy, Row};
use crate::annotations::value::{self, number, seconds, word};

macro_rules! alibaba {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/alibaba-cloud-loadbalancer-", $name)
    };
}

pub(super) const PLACE: Place = Place {
    name: "Alibaba",
    prefixes: &["service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"],
    rows: ROWS,
};

/// Lists of clients that are turned off restrict nobody.
pub(super) const ACCESS_LIST_SWITCH: (&str, &str, &str) = (alibaba!("acl-id"), alibaba!("acl-status"), "off");

const NETWORK: &str = "the cloud's networks";
const RESOURCES: &str = "the cloud's resources";
const SOLD: &str = "what the cloud sells";

const ROWS: &[Row] = &[
    Row::scope(alibaba!("address-type"), &["intranet"], &["internet"]),
    Row::hard(
        alibaba!("protocol-port"),
        "what clients of each port speak, as `https:443,http:80`",
        protocol_ports,
    ),
    alike::certificates(alibaba!("cert-id")),
    Row::tunes(
        alibaba!("tls-cipher-policy"),
        "versions of TLS, none below 1.2",
        |asked, field| {
            let policies = [
                ("tls_cipher_policy_1_0", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_1", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_2", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_2_strict", TlsPolicy::Tls12),
                ("tls_cipher_policy_1_2_strict_with_1_3", TlsPolicy::Tls12And13),
            ];
            asked.tls_policy.put(field, word(field.text, &policies)?)
        },
    ),
    Row::hard(
        alibaba!("forward-port"),
        "ports of `http` send clients to the first port of `https`",
        |asked, field| {
            let pairs = field.text.split(',').map(|pair| pair.split_once(':'));
            let mut are_ports = pairs.map(|pair| {
                pair.is_some_and(|(from, to)| value::port(from).is_ok() && value::port(to).is_ok())
            });
            if !are_ports.all(|is_pair| is_pair) {
                return Err(Refusal::Value("pairs of ports such as 80:443".to_owned()));
            }
            asked.redirects_to_https.put(field, true)
        },
    ),
    Row::hard(
        alibaba!("proxy-protocol"),
        "backends get a PROXY header of version 2",
        |asked, field| {
            let version = value::on_off(field.text)?.then_some(ProxyVersion::V2);
            asked.proxy_to_backends.put_unless(field, version, None)
        },
    ),
    Row::tunes(
        alibaba!("scheduler"),
        "which backend takes a new connection",
        |asked, field| {
            let schedulers = [
                ("rr", Balance::RoundRobin),
                ("wrr", Balance::RoundRobin),
                ("wlc", Balance::LeastConnections),
                ("sch", Balance::Maglev),
                ("tch", Balance::Maglev),
            ];
            asked.balance.put(field, word(field.text, &schedulers)?)
        },
    ),
    Row::hard(
        alibaba!("persistence-timeout"),
        "clients stay with their backend, up to 3600 seconds; 0 is off",
        |asked, field| {
            let timeout = seconds(field.text, 0..=3_600)?;
            if timeout.is_zero() {
                return Ok(Effect::Plain);
            }
            asked.sticky_timeout.put(field, timeout)?;
            asked.sticks.put(field, Sticks::BySource)
        },
    ),
    Row::hard(
        alibaba!("sticky-session"),
        "clients with our cookie stay with their backend",
        |asked, field| match value::on_off(field.text)? {
            true => asked.sticks.put(field, Sticks::ByCookie),
            false => Ok(Effect::Plain),
        },
    ),
    Row::checked(
        alibaba!("sticky-session-type"),
        "the cookie is always the edge's own",
        |text| word(text, &[("insert", ()), ("server", ())]),
    ),
    alike::cookie_name(alibaba!("cookie")),
    Row::tunes(
        alibaba!("cookie-timeout"),
        "its age, 1 to 86400 seconds",
        |asked, field| asked.cookie_max_age.put(field, seconds(field.text, 1..=86_400)?),
    ),
    Row::soft(
        alibaba!("connection-drain"),
        "whether connections to a backend that left go on; `off` ends them at once",
        |asked, field| asked.drains.put_unless(field, value::on_off(field.text)?, false),
    ),
    Row::tunes(
        alibaba!("connection-drain-timeout"),
        "how long, 10 to 900 seconds",
        |asked, field| asked.draining_timeout.put(field, seconds(field.text, 10..=900)?),
    ),
    Row::soft(
        alibaba!("idle-timeout"),
        "how long a connection may be silent, 1 to 60 seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 1..=60)?),
    ),
    Row::soft(
        alibaba!("established-timeout"),
        "how long a connection may be silent, 10 to 900 seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 10..=900)?),
    ),
    Row::soft(
        alibaba!("health-check-flag"),
        "whether backends are asked",
        |asked, field| {
            asked
                .is_checked
                .put_unless(field, value::on_off(field.text)?, false)
        },
    ),
    Row::tunes(
        alibaba!("health-check-type"),
        "how backends are asked",
        |asked, field| {
            asked.check.put(
                field,
                word(field.text, &[("tcp", Asks::Tcp), ("http", Asks::Http)])?,
            )
        },
    ),
    Row::tunes(alibaba!("health-check-uri"), "path of the GET", |asked, field| {
        asked.check_path.put(field, value::path(field.text)?)
    }),
    alike::check_host(alibaba!("health-check-domain")),
    Row::tunes(
        alibaba!("health-check-httpcode"),
        "statuses that are good, as `http_2xx,http_3xx`",
        |asked, field| asked.check_statuses.put(field, value::statuses(field.text)?),
    ),
    Row::tunes(
        alibaba!("health-check-connect-port"),
        "port that is asked",
        |asked, field| asked.check_port.put(field, Some(value::port(field.text)?)),
    ),
    Row::tunes(
        alibaba!("health-check-interval"),
        "1 to 50 seconds between checks",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 1..=50)?),
    ),
    Row::tunes(
        alibaba!("health-check-timeout"),
        "1 to 300 seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::tunes(
        alibaba!("health-check-connect-timeout"),
        "1 to 300 seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::tunes(
        alibaba!("healthy-threshold"),
        "2 to 10 good answers",
        |asked, field| asked.check_healthy.put(field, number(field.text, 2..=10)?),
    ),
    Row::tunes(
        alibaba!("unhealthy-threshold"),
        "2 to 10 bad answers",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 2..=10)?),
    ),
    alike::hostname(alibaba!("hostname")),
    alike::node_labels(alibaba!("backend-label")),
    Row::nothing(alibaba!("http2-enabled"), "clients may always speak HTTP/2"),
    Row::nothing(
        alibaba!("remove-unscheduled-backend"),
        "endpoints are reached directly",
    ),
    Row::nothing(alibaba!("id"), RESOURCES),
    Row::nothing(alibaba!("name"), "the Service's own name is used everywhere"),
    Row::nothing(alibaba!("force-override-listeners"), RESOURCES),
    Row::nothing(alibaba!("resource-group-id"), RESOURCES),
    Row::nothing(
        alibaba!("additional-resource-tags"),
        "tags are of the cloud's resources",
    ),
    Row::nothing(alibaba!("delete-protection"), RESOURCES),
    Row::nothing(alibaba!("modification-protection"), RESOURCES),
    Row::nothing(alibaba!("region"), NETWORK),
    Row::nothing(alibaba!("master-zoneid"), NETWORK),
    Row::nothing(alibaba!("slave-zoneid"), NETWORK),
    Row::nothing(alibaba!("vswitch-id"), NETWORK),
    Row::nothing(alibaba!("ip-version"), "`spec.ipFamilies` says that"),
    Row::nothing(alibaba!("spec"), SOLD),
    alike::bandwidth(alibaba!("bandwidth")),
    Row::nothing(alibaba!("charge-type"), SOLD),
    Row::nothing(alibaba!("instance-charge-type"), SOLD),
    Row::unenforceable(
        alibaba!("acl-id"),
        "lists of the cloud, unless `acl-status` is `off`; use `spec.loadBalancerSourceRanges` instead",
        Remedy::Removal,
    ),
    Row::nothing(alibaba!("acl-status"), "the cloud's lists"),
    Row::nothing(alibaba!("acl-type"), "the cloud's lists"),
];

fn protocol_ports(asked: &mut Asked, field: Field<'_>) -> Result<Effect, Refusal> {
    let protocols = [
        ("tcp", Some(Speaks::Tcp)),
        ("udp", None),
        ("http", Some(Speaks::Http)),
        ("https", Some(Speaks::Https)),
    ];
    let allowed = || {
        Refusal::Value(
            "pairs of a protocol (tcp, udp, http, https) and a port, as https:443,http:80".to_owned(),
        )
    };
    let mut effect = Effect::Plain;
    let mut speaking = Vec::new();
    for pair in field.text.split(',') {
        let (protocol, port) = pair.trim().split_once(':').ok_or_else(allowed)?;
        let speaks = word(protocol, &protocols).map_err(|_| allowed())?;
        let port = value::port_ref(port).map_err(|_| allowed())?;
        if let Some(speaks) = speaks {
            if speaks != Speaks::Tcp {
                effect = Effect::More;
            }
            speaking.push((field.name, port, speaks));
        }
    }
    asked.ports_speak.extend(speaking);
    Ok(effect)
}
