//! Annotations of MetalLB and kube-vip.

use super::Provider;
use crate::annotations::row::{AnnotationMeaning, Row};
use crate::metallb::{POOL_ANNOTATION, POOL_ANNOTATION_BEFORE};

pub(super) const PROVIDER: Provider = Provider {
    name: "MetalLB and kube-vip",
    prefixes: &["metallb.io/", "metallb.universe.tf/", "kube-vip.io/"],
    rows: ROWS,
};

const ADDRESSES: &str = "as `portolan.dev/load-balancer-ips`";
const POOL: &str = "as `portolan.dev/address-pool`";
const SHARING: &str = "as `portolan.dev/allow-shared-ip`";

const ROWS: &[Row] = &[
    Row::assigner(
        "metallb.io/loadBalancerIPs",
        ADDRESSES,
        AnnotationMeaning::Addresses,
    ),
    Row::assigner(
        "metallb.universe.tf/loadBalancerIPs",
        ADDRESSES,
        AnnotationMeaning::Addresses,
    ),
    Row::assigner("metallb.io/address-pool", POOL, AnnotationMeaning::Pool),
    Row::assigner("metallb.universe.tf/address-pool", POOL, AnnotationMeaning::Pool),
    Row::assigner(
        "metallb.io/allow-shared-ip",
        SHARING,
        AnnotationMeaning::SharingKey,
    ),
    Row::assigner(
        "metallb.universe.tf/allow-shared-ip",
        SHARING,
        AnnotationMeaning::SharingKey,
    ),
    Row::assigner(
        "kube-vip.io/loadbalancerIPs",
        "as `portolan.dev/load-balancer-ips`; `0.0.0.0` (DHCP) is rejected",
        AnnotationMeaning::Addresses,
    ),
    Row::direct(
        "kube-vip.io/loadbalancerHostname",
        "as `portolan.dev/load-balancer-hostname`",
        super::hostname,
    ),
    Row::assigner(
        POOL_ANNOTATION,
        "written by the assigner: the pool of the addresses",
        AnnotationMeaning::Written,
    ),
    Row::assigner(
        POOL_ANNOTATION_BEFORE,
        "written by MetalLB; the assigner replaces it by `metallb.io/ip-allocated-from-pool`",
        AnnotationMeaning::Written,
    ),
    Row::cloud_only("kube-vip.io/vipHost", "written by kube-vip"),
];
