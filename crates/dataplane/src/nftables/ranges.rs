//! The elements that settings ask for: ranges of addresses, and where node ports answer.

use std::net::IpAddr;

use ipnet::IpNet;
use plan::{Family, Settings};

use super::bytes::Bytes;
use super::item::{Item, Place};
use super::layout::{FAMILIES, Map};

/// All of them.
pub fn items(settings: &Settings) -> Vec<Item> {
    let mut items = Vec::new();
    for family in FAMILIES {
        range_items(
            Place::Map(Map::Pods, family),
            family,
            settings.pods.ranges(),
            &mut items,
        );
        range_items(
            Place::Map(Map::ServiceCidrs, family),
            family,
            &settings.service_cidrs,
            &mut items,
        );
        let place = Place::Map(Map::NodePortAddresses, family);
        let addresses = settings.node_port_ips(family).unwrap_or_default();
        items.extend(
            addresses
                .into_iter()
                .map(|ip| Item::key(place, Bytes::new().address(ip))),
        );
    }
    items
}

/// A range is two elements: its first address, and the first address behind it, if there is one.
fn range_items(place: Place, family: Family, ranges: &[IpNet], items: &mut Vec<Item>) {
    let own: Vec<IpNet> = ranges
        .iter()
        .copied()
        .filter(|range| Family::of(range.addr()) == family)
        .collect();
    for range in IpNet::aggregate(&own) {
        items.push(Item::key(place, Bytes::new().address(range.network())));
        if let Some(end) = next(range.broadcast()) {
            items.push(Item {
                is_interval_end: true,
                ..Item::key(place, Bytes::new().address(end))
            });
        }
    }
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(ip) => ip.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(ip) => ip.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}
