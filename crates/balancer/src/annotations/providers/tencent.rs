//! Annotations of Tencent Cloud.

use super::{Provider, shared_rows};
use crate::annotations::row::{Remedy, Row};
use crate::annotations::value::{self, keyword, megabits_per_second};

macro_rules! tencent {
    ($name:literal) => {
        concat!("service.kubernetes.io/", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "Tencent",
    prefixes: &[
        "service.kubernetes.io/qcloud-loadbalancer-",
        "service.kubernetes.io/tke-",
        "service.cloud.tencent.com/",
    ],
    rows: ROWS,
};

const RESOURCES: &str = "resources of the cloud";

const ROWS: &[Row] = &[
    Row::scope(tencent!("qcloud-loadbalancer-internal-subnetid"), &["*"], &[]),
    shared_rows::node_selector(tencent!("qcloud-loadbalancer-backends-label")),
    Row::edge_only(
        tencent!("qcloud-loadbalancer-internet-max-bandwidth-out"),
        "bandwidth towards clients, 1 to 2000 Mbit/s",
        |values, annotation| {
            values
                .limits
                .sent_bytes_per_second
                .set(annotation, megabits_per_second(annotation.value, 1..=2_000)?)
        },
    ),
    Row::cloud_only_checked(
        tencent!("qcloud-loadbalancer-internet-charge-type"),
        "product of the cloud",
        |text| {
            let kinds = [
                "TRAFFIC_POSTPAID_BY_HOUR",
                "BANDWIDTH_POSTPAID_BY_HOUR",
                "BANDWIDTH_PACKAGE",
            ];
            keyword(text, &kinds.map(|kind| (kind, ())))
        },
    ),
    Row::cloud_only_checked(
        tencent!("loadbalance-type"),
        "type of the cloud load balancer",
        |text| keyword(text, &[("classic", ()), ("application", ())]),
    ),
    Row::cloud_only(tencent!("loadbalance-id"), RESOURCES),
    Row::cloud_only(tencent!("tke-existed-lbid"), RESOURCES),
    Row::cloud_only(tencent!("service.extensiveParameters"), RESOURCES),
    Row::cloud_only(tencent!("service.listenerParameters"), RESOURCES),
    Row::cloud_only_checked(
        tencent!("local-svc-only-bind-node-with-pod"),
        "use `externalTrafficPolicy: Local`",
        |text| value::bool(text).map(drop),
    ),
    Row::unenforceable(
        "service.cloud.tencent.com/security-groups",
        "security groups of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::cloud_only(
        "service.cloud.tencent.com/direct-access",
        "type of targets; endpoints are always contacted directly",
    ),
];
