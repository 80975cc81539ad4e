//! Baidu.

use super::{Place, alike};
use crate::annotations::row::Row;

pub(super) const PLACE: Place = Place {
    name: "Baidu",
    prefixes: &["service.beta.kubernetes.io/cce-"],
    rows: ROWS,
};

const RESOURCES: &str = "resources of the cloud";

const ROWS: &[Row] = &[
    Row::scope(
        "service.beta.kubernetes.io/cce-load-balancer-internal-vpc",
        &["true"],
        &["false"],
    ),
    Row::nothing("service.beta.kubernetes.io/cce-load-balancer-exist-id", RESOURCES),
    Row::nothing(
        "service.beta.kubernetes.io/cce-load-balancer-rs-max-num",
        RESOURCES,
    ),
    alike::bandwidth("service.beta.kubernetes.io/cce-elastic-ip-bandwidth-in-mbps"),
    Row::nothing(
        "service.beta.kubernetes.io/cce-elastic-ip-billing-method",
        "product of the cloud",
    ),
    Row::nothing(
        "service.beta.kubernetes.io/cce-elastic-ip-payment-timing",
        "product of the cloud",
    ),
];
