//! Annotations of Azure. Its load balancer forwards packets, so timeouts and health checks alone do not need the edge.

use ipam::pools::Family;

use super::Provider;
use crate::annotations::row::{AnnotationMeaning, Remedy, Row};
use crate::annotations::value::{self, keyword, minutes, number, seconds};
use crate::annotations::values::CheckProtocol;

macro_rules! azure {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/azure-", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "Azure",
    prefixes: &["service.beta.kubernetes.io/azure-"],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";
const ADDRESSES: &str =
    "address resources of the cloud; request addresses with `portolan.dev/load-balancer-ips`";
const RESOURCES: &str = "resources of the cloud";

const ROWS: &[Row] = &[
    Row::scope(azure!("load-balancer-internal"), &["true"], &["false"]),
    Row::assigner(
        azure!("load-balancer-ipv4"),
        "requests this IPv4 address",
        AnnotationMeaning::FamilyAddress(Family::V4),
    ),
    Row::assigner(
        azure!("load-balancer-ipv6"),
        "requests this IPv6 address",
        AnnotationMeaning::FamilyAddress(Family::V6),
    ),
    Row::configures_edge(
        azure!("load-balancer-tcp-idle-timeout"),
        "idle timeout, 4 to 100 minutes",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, minutes(annotation.value, 4..=100)?)
        },
    ),
    Row::configures_edge(
        azure!("load-balancer-health-probe-protocol"),
        "protocol of health checks",
        |values, annotation| {
            let protocols = [
                ("tcp", CheckProtocol::Tcp),
                ("http", CheckProtocol::Http),
                ("https", CheckProtocol::Https),
            ];
            values
                .health_check
                .protocol
                .set(annotation, keyword(annotation.value, &protocols)?)
        },
    ),
    Row::configures_edge(
        azure!("load-balancer-health-probe-interval"),
        "interval of health checks, 5 seconds or more",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 5..=3_600)?)
        },
    ),
    Row::configures_edge(
        azure!("load-balancer-health-probe-num-of-probe"),
        "failures until a backend is unhealthy",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 1..=100)?)
        },
    ),
    Row::configures_edge(
        azure!("load-balancer-health-probe-request-path"),
        "path of the health check",
        |values, annotation| {
            values
                .health_check
                .path
                .set(annotation, value::path(annotation.value)?)
        },
    ),
    Row::client_ranges(
        azure!("allowed-ip-ranges"),
        "allowed clients, as in `load-balancer-source-ranges`",
        |values, annotation| super::source_ranges(values, annotation.name, value::ranges(annotation.value)?),
    ),
    Row::unenforceable(
        azure!("allowed-service-tags"),
        "service tags of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::cloud_only(azure!("load-balancer-internal-subnet"), NETWORK),
    Row::cloud_only(azure!("load-balancer-mode"), RESOURCES),
    Row::cloud_only(azure!("load-balancer-resource-group"), RESOURCES),
    Row::cloud_only(azure!("load-balancer-configurations"), RESOURCES),
    Row::cloud_only(azure!("load-balancer-enable-high-availability-ports"), RESOURCES),
    Row::cloud_only(azure!("load-balancer-disable-tcp-reset"), RESOURCES),
    Row::cloud_only(azure!("disable-load-balancer-floating-ip"), RESOURCES),
    Row::cloud_only(
        azure!("deny-all-except-load-balancer-source-ranges"),
        "enforcement of source ranges, which always applies",
    ),
    Row::cloud_only(azure!("shared-securityrule"), RESOURCES),
    Row::cloud_only(azure!("additional-public-ips"), ADDRESSES),
    Row::cloud_only(azure!("pip-name"), ADDRESSES),
    Row::cloud_only(azure!("pip-name-ipv6"), ADDRESSES),
    Row::cloud_only(azure!("pip-prefix-id"), ADDRESSES),
    Row::cloud_only(azure!("pip-prefix-id-ipv6"), ADDRESSES),
    Row::cloud_only(azure!("pip-tags"), "tags of cloud resources"),
    Row::cloud_only(azure!("pip-ip-tags"), "tags of cloud resources"),
    Row::cloud_only(
        azure!("dns-label-name"),
        "DNS of the cloud; see `portolan.dev/load-balancer-hostname`",
    ),
];
