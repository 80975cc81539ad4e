//! Annotations of MetalLB and kube-vip.

use super::Provider;
use crate::annotations::row::{Meaning, Row};

pub(super) const PROVIDER: Provider = Provider {
    name: "MetalLB and kube-vip",
    prefixes: &["metallb.io/", "metallb.universe.tf/", "kube-vip.io/"],
    rows: ROWS,
};

const ADDRESSES: &str = "as `portolan.dev/load-balancer-ips`";
const POOL: &str = "as `portolan.dev/address-pool`";
const SHARING: &str = "as `portolan.dev/allow-shared-ip`";
const WRITTEN_BY_CONTROLLER: &str = "written by MetalLB or kube-vip";

const ROWS: &[Row] = &[
    Row::assigner("metallb.io/loadBalancerIPs", ADDRESSES, Meaning::Addresses),
    Row::assigner(
        "metallb.universe.tf/loadBalancerIPs",
        ADDRESSES,
        Meaning::Addresses,
    ),
    Row::assigner("metallb.io/address-pool", POOL, Meaning::Pool),
    Row::assigner("metallb.universe.tf/address-pool", POOL, Meaning::Pool),
    Row::assigner("metallb.io/allow-shared-ip", SHARING, Meaning::SharingKey),
    Row::assigner(
        "metallb.universe.tf/allow-shared-ip",
        SHARING,
        Meaning::SharingKey,
    ),
    Row::assigner(
        "kube-vip.io/loadbalancerIPs",
        "as `portolan.dev/load-balancer-ips`; `0.0.0.0` (DHCP) is refused",
        Meaning::Addresses,
    ),
    Row::tunes(
        "kube-vip.io/loadbalancerHostname",
        "as `portolan.dev/load-balancer-hostname`",
        super::hostname,
    ),
    Row::cloud_only("metallb.io/ip-allocated-from-pool", WRITTEN_BY_CONTROLLER),
    Row::cloud_only(
        "metallb.universe.tf/ip-allocated-from-pool",
        WRITTEN_BY_CONTROLLER,
    ),
    Row::cloud_only("kube-vip.io/vipHost", WRITTEN_BY_CONTROLLER),
];
