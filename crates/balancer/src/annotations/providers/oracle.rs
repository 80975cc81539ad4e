//! Annotations of Oracle Cloud Infrastructure.

use edge::settings::{Balance, ProxyVersion};

use super::{Provider, shared_rows};
use crate::annotations::row::{Annotation, ApplyError, Effect, Remedy, Row};
use crate::annotations::value::{self, keyword, megabits_per_second, milliseconds, number, seconds};
use crate::annotations::values::{AnnotationValues, AppProtocol};

macro_rules! oci {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/oci-load-balancer-", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "Oracle",
    prefixes: &[
        "service.beta.kubernetes.io/oci-load-balancer-",
        "oci.oraclecloud.com/load",
        "oci-network-load-balancer.oraclecloud.com/",
    ],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";
const BILLING: &str = "product of the cloud";

const ROWS: &[Row] = &[
    Row::scope(oci!("internal"), &["true"], &["false"]),
    Row::scope(
        "oci-network-load-balancer.oraclecloud.com/internal",
        &["true"],
        &["false"],
    ),
    Row::direct(
        "oci.oraclecloud.com/load-balancer-type",
        "`nlb` forwards packets: timeouts and health checks alone do not select the edge",
        |values, annotation| {
            let forwards_packets = keyword(annotation.value, &[("lb", false), ("nlb", true)])?;
            values.forwards_packets.set(annotation, forwards_packets)
        },
    ),
    shared_rows::certificates(oci!("tls-secret")),
    Row::configures_edge(
        oci!("ssl-ports"),
        "ports that terminate TLS: `*`, names or numbers",
        |values, annotation| values.tls.ports.set(annotation, value::ports(annotation.value)?),
    ),
    Row::requires_edge(
        oci!("backend-protocol"),
        "protocol of backends; with a certificate also that of clients",
        |values, annotation| {
            let protocol = keyword(
                annotation.value,
                &[("TCP", AppProtocol::Tcp), ("HTTP", AppProtocol::Http)],
            )?;
            values
                .protocols
                .backends
                .set_with_default(annotation, protocol, AppProtocol::Tcp)
        },
    ),
    Row::requires_edge(
        oci!("connection-proxy-protocol-version"),
        "version of the PROXY header for backends",
        |values, annotation| {
            let version = keyword(
                annotation.value,
                &[("1", ProxyVersion::V1), ("2", ProxyVersion::V2)],
            )?;
            values.proxy_protocol.to_backends.set(annotation, Some(version))
        },
    ),
    Row::prefers_edge(
        oci!("connection-idle-timeout"),
        "idle timeout, in seconds",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 1..=86_400)?)
        },
    ),
    Row::requires_edge(
        "oci.oraclecloud.com/loadbalancer-policy",
        "balancing algorithm for new connections",
        |values, annotation| {
            let policies = [
                ("ROUND_ROBIN", Balance::RoundRobin),
                ("LEAST_CONNECTIONS", Balance::LeastConnections),
                ("IP_HASH", Balance::Maglev),
            ];
            values.balance.set_with_default(
                annotation,
                keyword(annotation.value, &policies)?,
                Balance::RoundRobin,
            )
        },
    ),
    Row::prefers_edge(
        oci!("health-check-retries"),
        "failures until a backend is unhealthy",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 1..=100)?)
        },
    ),
    Row::prefers_edge(
        oci!("health-check-timeout"),
        "timeout of a health check in milliseconds",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, milliseconds(annotation.value, 1..=600_000)?)
        },
    ),
    Row::prefers_edge(
        oci!("health-check-interval"),
        "interval of health checks in milliseconds",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, milliseconds(annotation.value, 1_000..=1_800_000)?)
        },
    ),
    shared_rows::node_selector("oci.oraclecloud.com/node-label-selector"),
    Row::cloud_only_checked(
        oci!("tls-backendset-secret"),
        "verification of backend certificates, which does not take place",
        |text| value::secrets(text).map(drop),
    ),
    Row::unenforceable(
        "oci.oraclecloud.com/oci-network-security-groups",
        "security groups of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::cloud_only(oci!("security-list-management-mode"), NETWORK),
    Row::cloud_only(oci!("subnet1"), NETWORK),
    Row::cloud_only(oci!("subnet2"), NETWORK),
    Row::edge_only(
        oci!("shape"),
        "bandwidth of both directions together, such as `400Mbps`; with `flexible`, `shape-flex-max` applies",
        |values, annotation| match annotation.value {
            "flexible" => Ok(Effect::Unchanged),
            "10Mbps-Micro" => bandwidth(values, annotation, "10"),
            shape => bandwidth(values, annotation, shape),
        },
    ),
    Row::cloud_only(oci!("shape-flex-min"), BILLING),
    Row::edge_only(
        oci!("shape-flex-max"),
        "bandwidth of both directions together, 10 to 8000 Mbit/s",
        |values, annotation| bandwidth(values, annotation, annotation.value),
    ),
    Row::direct(
        "oci-network-load-balancer.oraclecloud.com/is-preserve-source",
        "client addresses are kept where the edge is not needed",
        |_, annotation| {
            value::bool(annotation.value)
                .map(|_| Effect::Unchanged)
                .map_err(Into::into)
        },
    ),
];

/// Sets the bandwidth of both directions together, as a load balancer shape defines it.
fn bandwidth(
    values: &mut AnnotationValues,
    annotation: Annotation<'_>,
    text: &str,
) -> Result<Effect, ApplyError> {
    let number = text.strip_suffix("Mbps").unwrap_or(text);
    let rate = megabits_per_second(number, 10..=8_000)?;
    values.limits.both_bytes_per_second.set(annotation, rate)
}
