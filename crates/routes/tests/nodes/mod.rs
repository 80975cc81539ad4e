//! Nodes `n1`, `n2` … with dual-stack addresses and ranges, for tests of plans and of the kernel.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{ClusterNode, Creation, Network, Settings};

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().expect("a range")
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns the settings of `n1`.
pub(crate) fn settings(network: Network) -> Settings {
    Settings {
        node_name: "n1".to_owned(),
        node_ips: vec![ip("192.0.2.1"), ip("2001:db8::1")],
        cluster_cidrs: vec![net("10.244.0.0/16"), net("fd00:244::/48")],
        network,
    }
}

/// Returns a creation this many seconds after a fixed time.
pub(crate) fn created(seconds: u32) -> Creation {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60);
    Creation::new(Some(&time), "")
}

pub(crate) fn node(number: u8) -> ClusterNode {
    ClusterNode {
        name: format!("n{number}"),
        addresses: vec![
            ip(&format!("192.0.2.{number}")),
            ip(&format!("2001:db8::{number}")),
        ],
        pod_cidrs: vec![
            net(&format!("10.244.{number}.0/24")),
            net(&format!("fd00:244:0:{number}::/64")),
        ],
        created: created(u32::from(number)),
    }
}
