//! Machines `n1`, `n2` … with addresses and ranges of both families, for tests of plans and of the kernel.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Creation, Machine, Network, Settings};

pub fn net(text: &str) -> IpNet {
    text.parse().expect("a range")
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Of `n1`.
pub fn settings(network: Network) -> Settings {
    Settings {
        node_name: "n1".to_owned(),
        node_ips: vec![ip("192.0.2.1"), ip("2001:db8::1")],
        cluster_cidrs: vec![net("10.244.0.0/16"), net("fd00:244::/48")],
        network,
    }
}

/// A creation that many seconds after the first machine could have been made.
pub fn created(seconds: u32) -> Creation {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60);
    Creation::new(Some(&time), "")
}

pub fn machine(number: u8) -> Machine {
    Machine {
        name: format!("n{number}"),
        addresses: vec![
            ip(&format!("192.0.2.{number}")),
            ip(&format!("2001:db8::{number}")),
        ],
        ranges: vec![
            net(&format!("10.244.{number}.0/24")),
            net(&format!("fd00:244:0:{number}::/64")),
        ],
        created: created(u32::from(number)),
    }
}
