//! Oracle's cloud infrastructure.

use edge::settings::{Balance, ProxyVersion};

use super::{Place, alike};
use crate::annotations::asked::{Asked, Speaks};
use crate::annotations::row::{Effect, Field, Refusal, Remedy, Row};
use crate::annotations::value::{self, megabits_per_second, milliseconds, number, seconds, word};

macro_rules! oci {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/oci-load-balancer-", $name)
    };
}

pub(super) const PLACE: Place = Place {
    name: "Oracle",
    prefixes: &[
        "service.beta.kubernetes.io/oci-load-balancer-",
        "oci.oraclecloud.com/load",
        "oci-network-load-balancer.oraclecloud.com/",
    ],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";
const SOLD: &str = "product of the cloud";

const ROWS: &[Row] = &[
    Row::scope(oci!("internal"), &["true"], &["false"]),
    Row::scope(
        "oci-network-load-balancer.oraclecloud.com/internal",
        &["true"],
        &["false"],
    ),
    Row::tunes(
        "oci.oraclecloud.com/load-balancer-type",
        "`nlb` forwards packets: timeouts and health checks alone do not select the edge",
        |asked, field| {
            let passes_packets = word(field.text, &[("lb", false), ("nlb", true)])?;
            asked.passes_packets.put(field, passes_packets)
        },
    ),
    alike::certificates(oci!("tls-secret")),
    Row::tunes(
        oci!("ssl-ports"),
        "ports that terminate TLS: `*`, names or numbers",
        |asked, field| asked.tls_ports.put(field, value::ports(field.text)?),
    ),
    Row::hard(
        oci!("backend-protocol"),
        "protocol of backends; with a certificate also that of clients",
        |asked, field| {
            let speaks = word(field.text, &[("TCP", Speaks::Tcp), ("HTTP", Speaks::Http)])?;
            asked.backends_speak.put_unless(field, speaks, Speaks::Tcp)
        },
    ),
    Row::hard(
        oci!("connection-proxy-protocol-version"),
        "version of the PROXY header for backends",
        |asked, field| {
            let version = word(field.text, &[("1", ProxyVersion::V1), ("2", ProxyVersion::V2)])?;
            asked.proxy_to_backends.put(field, Some(version))
        },
    ),
    Row::soft(
        oci!("connection-idle-timeout"),
        "idle timeout, in seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 1..=86_400)?),
    ),
    Row::hard(
        "oci.oraclecloud.com/loadbalancer-policy",
        "balancing algorithm for new connections",
        |asked, field| {
            let policies = [
                ("ROUND_ROBIN", Balance::RoundRobin),
                ("LEAST_CONNECTIONS", Balance::LeastConnections),
                ("IP_HASH", Balance::Maglev),
            ];
            asked
                .balance
                .put_unless(field, word(field.text, &policies)?, Balance::RoundRobin)
        },
    ),
    Row::soft(
        oci!("health-check-retries"),
        "failures until a backend is unhealthy",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=100)?),
    ),
    Row::soft(
        oci!("health-check-timeout"),
        "timeout of a health check in milliseconds",
        |asked, field| {
            asked
                .check_timeout
                .put(field, milliseconds(field.text, 1..=600_000)?)
        },
    ),
    Row::soft(
        oci!("health-check-interval"),
        "interval of health checks in milliseconds",
        |asked, field| {
            asked
                .check_interval
                .put(field, milliseconds(field.text, 1_000..=1_800_000)?)
        },
    ),
    alike::node_selector("oci.oraclecloud.com/node-label-selector"),
    Row::checked(
        oci!("tls-backendset-secret"),
        "verification of backend certificates, which does not take place",
        |text| value::secrets(text).map(drop),
    ),
    Row::unenforceable(
        "oci.oraclecloud.com/oci-network-security-groups",
        "security groups of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::nothing(oci!("security-list-management-mode"), NETWORK),
    Row::nothing(oci!("subnet1"), NETWORK),
    Row::nothing(oci!("subnet2"), NETWORK),
    Row::at_edge(
        oci!("shape"),
        "bandwidth of both directions together, such as `400Mbps`; with `flexible`, `shape-flex-max` applies",
        |asked, field| match field.text {
            "flexible" => Ok(Effect::Plain),
            "10Mbps-Micro" => bandwidth(asked, field, "10"),
            shape => bandwidth(asked, field, shape),
        },
    ),
    Row::nothing(oci!("shape-flex-min"), SOLD),
    Row::at_edge(
        oci!("shape-flex-max"),
        "bandwidth of both directions together, 10 to 8000 Mbit/s",
        |asked, field| bandwidth(asked, field, field.text),
    ),
    Row::tunes(
        "oci-network-load-balancer.oraclecloud.com/is-preserve-source",
        "client addresses are kept where the edge is not needed",
        |_, field| value::bool(field.text).map(|_| Effect::Plain).map_err(Into::into),
    ),
];

/// What is sold of a balancer: what comes from clients and what goes to them, together.
fn bandwidth(asked: &mut Asked, field: Field<'_>, text: &str) -> Result<Effect, Refusal> {
    let number = text.strip_suffix("Mbps").unwrap_or(text);
    let rate = megabits_per_second(number, 10..=8_000)?;
    asked.both_bytes_per_second.put(field, rate)
}
