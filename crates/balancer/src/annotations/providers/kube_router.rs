//! Annotations of kube-router (LBK-10, LBK-11). They select features of its own proxy and BGP speaker.

use super::Provider;
use crate::annotations::row::Row;

macro_rules! kube_router {
    ($name:literal) => {
        concat!("kube-router.io/service.", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "kube-router",
    prefixes: &["kube-router.io/service."],
    rows: ROWS,
};

const ADVERTISEMENT: &str =
    "routes of kube-router; AddressPools select the addresses and the nodes that announce them";
const HAIRPIN: &str = "a Pod always reaches itself through its Service";
const SCHEDULER: &str = "use `service.portolan.dev/scheduler`";
const DIRECT_RETURN: &str = "responses always pass the node that received the request";

const ROWS: &[Row] = &[
    Row::cloud_only(kube_router!("advertise.clusterip"), ADVERTISEMENT),
    Row::cloud_only(kube_router!("advertise.externalip"), ADVERTISEMENT),
    Row::cloud_only(kube_router!("advertise.loadbalancerip"), ADVERTISEMENT),
    Row::cloud_only(
        kube_router!("local"),
        "use `internalTrafficPolicy: Local` and `externalTrafficPolicy: Local`",
    ),
    Row::cloud_only(kube_router!("hairpin"), HAIRPIN),
    Row::cloud_only(kube_router!("hairpin.externalips"), HAIRPIN),
    Row::cloud_only(kube_router!("scheduler"), SCHEDULER),
    Row::cloud_only(kube_router!("schedflags"), SCHEDULER),
    Row::cloud_only(kube_router!("dsr"), DIRECT_RETURN),
    Row::cloud_only(kube_router!("dsr.mode"), DIRECT_RETURN),
    Row::cloud_only(
        kube_router!("skiplbips"),
        "addresses of load balancers are always served by the proxies",
    ),
];
