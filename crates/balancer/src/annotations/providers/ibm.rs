//! Annotations of IBM Cloud. Classic load balancers forward packets; those of a VPC are TCP proxies.

use edge::settings::{Balance, ProxyVersion};

use super::{Provider, shared_rows};
use crate::annotations::row::{Effect, Remedy, Row};
use crate::annotations::value::{keyword, number, seconds};

macro_rules! ibm {
    ($name:literal) => {
        concat!("service.kubernetes.io/ibm-load-balancer-cloud-provider-", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "IBM",
    prefixes: &["service.kubernetes.io/ibm-load-balancer-"],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";

const ROWS: &[Row] = &[
    Row::scope(ibm!("ip-type"), &["private"], &["public"]),
    Row::requires_edge(
        ibm!("enable-features"),
        "`proxy-protocol` in the list: PROXY header of version 1 for backends",
        |values, annotation| {
            let mut features = annotation.value.split(',').map(str::trim);
            if !features.any(|feature| feature == "proxy-protocol") {
                return Ok(Effect::Unchanged);
            }
            values
                .proxy_protocol
                .to_backends
                .set(annotation, Some(ProxyVersion::V1))
        },
    ),
    Row::configures_edge(
        ibm!("ipvs-scheduler"),
        "balancing algorithm for new connections",
        |values, annotation| {
            let schedulers = [
                ("rr", Balance::RoundRobin),
                ("lc", Balance::LeastConnections),
                ("sh", Balance::Maglev),
                ("mh", Balance::Maglev),
            ];
            values
                .balance
                .set(annotation, keyword(annotation.value, &schedulers)?)
        },
    ),
    Row::prefers_edge(
        ibm!("vpc-idle-connection-timeout"),
        "idle timeout, 50 to 7200 seconds",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 50..=7_200)?)
        },
    ),
    shared_rows::check_protocol(ibm!("vpc-health-check-protocol")),
    shared_rows::check_port(ibm!("vpc-health-check-port")),
    shared_rows::check_path(ibm!("vpc-health-check-path")),
    Row::prefers_edge(
        ibm!("vpc-health-check-delay"),
        "interval of health checks, 2 to 60 seconds",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 2..=60)?)
        },
    ),
    Row::prefers_edge(
        ibm!("vpc-health-check-timeout"),
        "timeout of a health check, 1 to 59 seconds",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 1..=59)?)
        },
    ),
    Row::prefers_edge(
        ibm!("vpc-health-check-retries"),
        "failures until a backend is unhealthy, 1 to 10",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 1..=10)?)
        },
    ),
    shared_rows::node_labels(ibm!("vpc-node-selector")),
    Row::unenforceable(
        ibm!("vpc-security-group"),
        "security groups of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::cloud_only(ibm!("vpc-lb-name"), "name of the cloud resource"),
    Row::cloud_only(ibm!("vpc-subnets"), NETWORK),
    Row::cloud_only(ibm!("zone"), NETWORK),
    Row::cloud_only(ibm!("vlan"), NETWORK),
];
