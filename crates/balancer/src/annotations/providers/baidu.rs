//! Annotations of Baidu AI Cloud.

use super::{Provider, shared_rows};
use crate::annotations::row::Row;

pub(super) const PROVIDER: Provider = Provider {
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
    Row::cloud_only("service.beta.kubernetes.io/cce-load-balancer-exist-id", RESOURCES),
    Row::cloud_only(
        "service.beta.kubernetes.io/cce-load-balancer-rs-max-num",
        RESOURCES,
    ),
    shared_rows::bandwidth("service.beta.kubernetes.io/cce-elastic-ip-bandwidth-in-mbps"),
    Row::cloud_only(
        "service.beta.kubernetes.io/cce-elastic-ip-billing-method",
        "product of the cloud",
    ),
    Row::cloud_only(
        "service.beta.kubernetes.io/cce-elastic-ip-payment-timing",
        "product of the cloud",
    ),
];
