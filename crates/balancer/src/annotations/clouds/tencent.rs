//! Tencent.

use super::{Place, alike};
use crate::annotations::row::{Remedy, Row};
use crate::annotations::value::{self, megabits_per_second, word};

macro_rules! tencent {
    ($name:literal) => {
        concat!("service.kubernetes.io/", $name)
    };
}

pub(super) const PLACE: Place = Place {
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
    alike::node_selector(tencent!("qcloud-loadbalancer-backends-label")),
    Row::at_edge(
        tencent!("qcloud-loadbalancer-internet-max-bandwidth-out"),
        "bandwidth towards clients, 1 to 2000 Mbit/s",
        |asked, field| {
            asked
                .sent_bytes_per_second
                .put(field, megabits_per_second(field.text, 1..=2_000)?)
        },
    ),
    Row::checked(
        tencent!("qcloud-loadbalancer-internet-charge-type"),
        "product of the cloud",
        |text| {
            let kinds = [
                "TRAFFIC_POSTPAID_BY_HOUR",
                "BANDWIDTH_POSTPAID_BY_HOUR",
                "BANDWIDTH_PACKAGE",
            ];
            word(text, &kinds.map(|kind| (kind, ())))
        },
    ),
    Row::checked(
        tencent!("loadbalance-type"),
        "type of the cloud load balancer",
        |text| word(text, &[("classic", ()), ("application", ())]),
    ),
    Row::nothing(tencent!("loadbalance-id"), RESOURCES),
    Row::nothing(tencent!("tke-existed-lbid"), RESOURCES),
    Row::nothing(tencent!("service.extensiveParameters"), RESOURCES),
    Row::nothing(tencent!("service.listenerParameters"), RESOURCES),
    Row::checked(
        tencent!("local-svc-only-bind-node-with-pod"),
        "use `externalTrafficPolicy: Local`",
        |text| value::bool(text).map(drop),
    ),
    Row::unenforceable(
        "service.cloud.tencent.com/security-groups",
        "security groups of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    Row::nothing(
        "service.cloud.tencent.com/direct-access",
        "type of targets; endpoints are always contacted directly",
    ),
];
