//! Tencent.

use super::Place;
use crate::annotations::row::Row;
use crate::annotations::value::{self, number, word};

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

const RESOURCES: &str = "the cloud's resources";

const ROWS: &[Row] = &[
    Row::scope(tencent!("qcloud-loadbalancer-internal-subnetid"), &["*"], &[]),
    Row::tunes(
        tencent!("qcloud-loadbalancer-backends-label"),
        "announced from nodes that the selector matches",
        |asked, field| super::nodes(asked, value::node_selector(field.text)?),
    ),
    Row::checked(
        tencent!("qcloud-loadbalancer-internet-max-bandwidth-out"),
        "what the cloud sells, 1 to 2000 Mbit/s",
        |text| number(text, 1..=2_000).map(drop),
    ),
    Row::checked(
        tencent!("qcloud-loadbalancer-internet-charge-type"),
        "what the cloud sells",
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
        "kinds of the cloud's balancers",
        |text| word(text, &[("classic", ()), ("application", ())]),
    ),
    Row::nothing(tencent!("loadbalance-id"), RESOURCES),
    Row::nothing(tencent!("tke-existed-lbid"), RESOURCES),
    Row::nothing(tencent!("service.extensiveParameters"), RESOURCES),
    Row::nothing(tencent!("service.listenerParameters"), RESOURCES),
    Row::checked(
        tencent!("local-svc-only-bind-node-with-pod"),
        "`externalTrafficPolicy: Local` says that",
        |text| value::bool(text).map(drop),
    ),
    Row::nothing(
        "service.cloud.tencent.com/direct-access",
        "endpoints are reached directly anyway",
    ),
];
