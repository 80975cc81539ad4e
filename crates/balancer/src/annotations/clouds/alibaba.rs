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

const NETWORK: &str = "networks of the cloud";
const RESOURCES: &str = "resources of the cloud";
const SOLD: &str = "product of the cloud";

const ROWS: &[Row] = &[
    Row::scope(alibaba!("address-type"), &["intranet"], &["internet"]),
    Row::hard(
        alibaba!("protocol-port"),
        "protocol of each port, such as `https:443,http:80`",
        protocol_ports,
    ),
    alike::certificates(alibaba!("cert-id")),
    Row::tunes(
        alibaba!("tls-cipher-policy"),
        "versions of TLS, 1.2 at least",
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
        "ports of `http` redirect clients to the first port of `https`",
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
        "PROXY header of version 2 for backends",
        |asked, field| {
            let version = value::on_off(field.text)?.then_some(ProxyVersion::V2);
            asked.proxy_to_backends.put_unless(field, version, None)
        },
    ),
    Row::tunes(
        alibaba!("scheduler"),
        "balancing algorithm for new connections",
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
        "sticky sessions, up to 3600 seconds; 0 for none",
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
        "sticky sessions by cookie",
        |asked, field| match value::on_off(field.text)? {
            true => asked.sticks.put(field, Sticks::ByCookie),
            false => Ok(Effect::Plain),
        },
    ),
    Row::checked(
        alibaba!("sticky-session-type"),
        "cookie of the backend; the edge always uses its own",
        |text| word(text, &[("insert", ()), ("server", ())]),
    ),
    alike::cookie_name(alibaba!("cookie")),
    Row::tunes(
        alibaba!("cookie-timeout"),
        "lifetime of the cookie, 1 to 86400 seconds",
        |asked, field| asked.cookie_max_age.put(field, seconds(field.text, 1..=86_400)?),
    ),
    Row::soft(
        alibaba!("connection-drain"),
        "draining of connections to a removed backend; `off` closes them at once",
        |asked, field| asked.drains.put_unless(field, value::on_off(field.text)?, false),
    ),
    Row::tunes(
        alibaba!("connection-drain-timeout"),
        "draining time, 10 to 900 seconds",
        |asked, field| asked.draining_timeout.put(field, seconds(field.text, 10..=900)?),
    ),
    Row::soft(
        alibaba!("idle-timeout"),
        "idle timeout, 1 to 60 seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 1..=60)?),
    ),
    Row::soft(
        alibaba!("established-timeout"),
        "idle timeout, 10 to 900 seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 10..=900)?),
    ),
    Row::soft(
        alibaba!("health-check-flag"),
        "enable health checks",
        |asked, field| {
            asked
                .is_checked
                .put_unless(field, value::on_off(field.text)?, false)
        },
    ),
    Row::tunes(
        alibaba!("health-check-type"),
        "protocol of health checks",
        |asked, field| {
            asked.check.put(
                field,
                word(field.text, &[("tcp", Asks::Tcp), ("http", Asks::Http)])?,
            )
        },
    ),
    Row::tunes(
        alibaba!("health-check-uri"),
        "path of the health check",
        |asked, field| asked.check_path.put(field, value::path(field.text)?),
    ),
    alike::check_host(alibaba!("health-check-domain")),
    Row::tunes(
        alibaba!("health-check-httpcode"),
        "statuses of a healthy backend, such as `http_2xx,http_3xx`",
        |asked, field| asked.check_statuses.put(field, value::statuses(field.text)?),
    ),
    Row::tunes(
        alibaba!("health-check-connect-port"),
        "port of health checks",
        |asked, field| asked.check_port.put(field, Some(value::port(field.text)?)),
    ),
    Row::tunes(
        alibaba!("health-check-interval"),
        "interval of health checks, 1 to 50 seconds",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 1..=50)?),
    ),
    Row::tunes(
        alibaba!("health-check-timeout"),
        "timeout of a health check, 1 to 300 seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::tunes(
        alibaba!("health-check-connect-timeout"),
        "timeout of a health check, 1 to 300 seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::tunes(
        alibaba!("healthy-threshold"),
        "successes until a backend is healthy, 2 to 10",
        |asked, field| asked.check_healthy.put(field, number(field.text, 2..=10)?),
    ),
    Row::tunes(
        alibaba!("unhealthy-threshold"),
        "failures until a backend is unhealthy, 2 to 10",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 2..=10)?),
    ),
    alike::hostname(alibaba!("hostname")),
    alike::node_labels(alibaba!("backend-label")),
    Row::nothing(
        alibaba!("http2-enabled"),
        "HTTP/2 for clients, which is always available",
    ),
    Row::nothing(
        alibaba!("remove-unscheduled-backend"),
        "type of targets; endpoints are always contacted directly",
    ),
    Row::nothing(alibaba!("id"), RESOURCES),
    Row::nothing(alibaba!("name"), "name of the cloud resource"),
    Row::nothing(alibaba!("force-override-listeners"), RESOURCES),
    Row::nothing(alibaba!("resource-group-id"), RESOURCES),
    Row::nothing(alibaba!("additional-resource-tags"), "tags of cloud resources"),
    Row::nothing(alibaba!("delete-protection"), RESOURCES),
    Row::nothing(alibaba!("modification-protection"), RESOURCES),
    Row::nothing(alibaba!("region"), NETWORK),
    Row::nothing(alibaba!("master-zoneid"), NETWORK),
    Row::nothing(alibaba!("slave-zoneid"), NETWORK),
    Row::nothing(alibaba!("vswitch-id"), NETWORK),
    Row::nothing(alibaba!("ip-version"), "use `spec.ipFamilies`"),
    Row::nothing(alibaba!("spec"), SOLD),
    alike::bandwidth(alibaba!("bandwidth")),
    Row::nothing(alibaba!("charge-type"), SOLD),
    Row::nothing(alibaba!("instance-charge-type"), SOLD),
    Row::unenforceable(
        alibaba!("acl-id"),
        "access lists of the cloud, unless `acl-status` is `off`; use `spec.loadBalancerSourceRanges`",
        Remedy::Removal,
    ),
    Row::nothing(alibaba!("acl-status"), "access lists of the cloud"),
    Row::nothing(alibaba!("acl-type"), "access lists of the cloud"),
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
