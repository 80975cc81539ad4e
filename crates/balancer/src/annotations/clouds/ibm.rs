//! IBM: classic balancers pass packets on; the VPC's balance connections.

use edge::settings::{Balance, ProxyVersion};

use super::{Place, alike};
use crate::annotations::row::{Effect, Remedy, Row};
use crate::annotations::value::{number, seconds, word};

macro_rules! ibm {
    ($name:literal) => {
        concat!("service.kubernetes.io/ibm-load-balancer-cloud-provider-", $name)
    };
}

pub(super) const PLACE: Place = Place {
    name: "IBM",
    prefixes: &["service.kubernetes.io/ibm-load-balancer-"],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";

const ROWS: &[Row] = &[
    Row::scope(ibm!("ip-type"), &["private"], &["public"]),
    Row::hard(
        ibm!("enable-features"),
        "`proxy-protocol` in the list: PROXY header of version 1 for backends",
        |asked, field| {
            let mut features = field.text.split(',').map(str::trim);
            if !features.any(|feature| feature == "proxy-protocol") {
                return Ok(Effect::Plain);
            }
            asked.proxy_to_backends.put(field, Some(ProxyVersion::V1))
        },
    ),
    Row::tunes(
        ibm!("ipvs-scheduler"),
        "balancing algorithm for new connections",
        |asked, field| {
            let schedulers = [
                ("rr", Balance::RoundRobin),
                ("lc", Balance::LeastConnections),
                ("sh", Balance::Maglev),
                ("mh", Balance::Maglev),
            ];
            asked.balance.put(field, word(field.text, &schedulers)?)
        },
    ),
    Row::soft(
        ibm!("vpc-idle-connection-timeout"),
        "idle timeout, 50 to 7200 seconds",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 50..=7_200)?),
    ),
    alike::check_protocol(ibm!("vpc-health-check-protocol")),
    alike::check_port(ibm!("vpc-health-check-port")),
    alike::check_path(ibm!("vpc-health-check-path")),
    Row::soft(
        ibm!("vpc-health-check-delay"),
        "interval of health checks, 2 to 60 seconds",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 2..=60)?),
    ),
    Row::soft(
        ibm!("vpc-health-check-timeout"),
        "timeout of a health check, 1 to 59 seconds",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=59)?),
    ),
    Row::soft(
        ibm!("vpc-health-check-retries"),
        "failures until a backend is unhealthy, 1 to 10",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=10)?),
    ),
    alike::node_labels(ibm!("vpc-node-selector")),
    Row::unenforceable(
        ibm!("vpc-security-group"),
        "security groups of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::nothing(ibm!("vpc-lb-name"), "name of the cloud resource"),
    Row::nothing(ibm!("vpc-subnets"), NETWORK),
    Row::nothing(ibm!("zone"), NETWORK),
    Row::nothing(ibm!("vlan"), NETWORK),
];
