//! Annotations of MetalLB and kube-vip.

use super::Place;
use crate::annotations::row::{Means, Row};

pub(super) const PLACE: Place = Place {
    name: "MetalLB and kube-vip",
    prefixes: &["metallb.io/", "metallb.universe.tf/", "kube-vip.io/"],
    rows: ROWS,
};

const ADDRESSES: &str = "as `portolan.dev/load-balancer-ips`";
const POOL: &str = "as `portolan.dev/address-pool`";
const SHARING: &str = "as `portolan.dev/allow-shared-ip`";
const TOLD: &str = "written by MetalLB or kube-vip";

const ROWS: &[Row] = &[
    Row::assigner("metallb.io/loadBalancerIPs", ADDRESSES, Means::Addresses),
    Row::assigner("metallb.universe.tf/loadBalancerIPs", ADDRESSES, Means::Addresses),
    Row::assigner("metallb.io/address-pool", POOL, Means::Pool),
    Row::assigner("metallb.universe.tf/address-pool", POOL, Means::Pool),
    Row::assigner("metallb.io/allow-shared-ip", SHARING, Means::Sharing),
    Row::assigner("metallb.universe.tf/allow-shared-ip", SHARING, Means::Sharing),
    Row::assigner(
        "kube-vip.io/loadbalancerIPs",
        "as `portolan.dev/load-balancer-ips`; `0.0.0.0` (DHCP) is refused",
        Means::Addresses,
    ),
    Row::tunes(
        "kube-vip.io/loadbalancerHostname",
        "as `portolan.dev/load-balancer-hostname`",
        super::hostname,
    ),
    Row::nothing("metallb.io/ip-allocated-from-pool", TOLD),
    Row::nothing("metallb.universe.tf/ip-allocated-from-pool", TOLD),
    Row::nothing("kube-vip.io/vipHost", TOLD),
];
