//! Azure: its balancer passes packets on, so timeouts and checks tune the edge where something else needs it.

use ipam::pools::Family;

use super::Place;
use crate::annotations::asked::Asks;
use crate::annotations::row::{Means, Remedy, Row};
use crate::annotations::value::{self, minutes, number, seconds, word};

macro_rules! azure {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/azure-", $name)
    };
}

pub(super) const PLACE: Place = Place {
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
        Means::AddressOf(Family::V4),
    ),
    Row::assigner(
        azure!("load-balancer-ipv6"),
        "requests this IPv6 address",
        Means::AddressOf(Family::V6),
    ),
    Row::tunes(
        azure!("load-balancer-tcp-idle-timeout"),
        "idle timeout, 4 to 100 minutes",
        |asked, field| asked.idle_timeout.put(field, minutes(field.text, 4..=100)?),
    ),
    Row::tunes(
        azure!("load-balancer-health-probe-protocol"),
        "protocol of health checks",
        |asked, field| {
            let protocols = [("tcp", Asks::Tcp), ("http", Asks::Http), ("https", Asks::Https)];
            asked.check.put(field, word(field.text, &protocols)?)
        },
    ),
    Row::tunes(
        azure!("load-balancer-health-probe-interval"),
        "interval of health checks, 5 seconds or more",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 5..=3_600)?),
    ),
    Row::tunes(
        azure!("load-balancer-health-probe-num-of-probe"),
        "failures until a backend is unhealthy",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=100)?),
    ),
    Row::tunes(
        azure!("load-balancer-health-probe-request-path"),
        "path of the health check",
        |asked, field| asked.check_path.put(field, value::path(field.text)?),
    ),
    Row::restricts(
        azure!("allowed-ip-ranges"),
        "allowed clients, as in `load-balancer-source-ranges`",
        |asked, field| super::source_ranges(asked, field.name, value::ranges(field.text)?),
    ),
    Row::unenforceable(
        azure!("allowed-service-tags"),
        "service tags of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::nothing(azure!("load-balancer-internal-subnet"), NETWORK),
    Row::nothing(azure!("load-balancer-mode"), RESOURCES),
    Row::nothing(azure!("load-balancer-resource-group"), RESOURCES),
    Row::nothing(azure!("load-balancer-configurations"), RESOURCES),
    Row::nothing(azure!("load-balancer-enable-high-availability-ports"), RESOURCES),
    Row::nothing(azure!("load-balancer-disable-tcp-reset"), RESOURCES),
    Row::nothing(azure!("disable-load-balancer-floating-ip"), RESOURCES),
    Row::nothing(
        azure!("deny-all-except-load-balancer-source-ranges"),
        "enforcement of source ranges, which always applies",
    ),
    Row::nothing(azure!("shared-securityrule"), RESOURCES),
    Row::nothing(azure!("additional-public-ips"), ADDRESSES),
    Row::nothing(azure!("pip-name"), ADDRESSES),
    Row::nothing(azure!("pip-name-ipv6"), ADDRESSES),
    Row::nothing(azure!("pip-prefix-id"), ADDRESSES),
    Row::nothing(azure!("pip-prefix-id-ipv6"), ADDRESSES),
    Row::nothing(azure!("pip-tags"), "tags of cloud resources"),
    Row::nothing(azure!("pip-ip-tags"), "tags of cloud resources"),
    Row::nothing(
        azure!("dns-label-name"),
        "DNS of the cloud; see `portolan.dev/load-balancer-hostname`",
    ),
];
