//! Elements that depend on settings: CIDRs, and the addresses of node ports.

use std::net::IpAddr;

use ipnet::IpNet;
use plan::{Family, Settings};

use super::bytes::MapBytes;
use super::layout::{FAMILIES, Map};
use super::map_element::{MapElement, MapId};

/// Returns the elements of all these maps and sets.
pub(super) fn elements(settings: &Settings) -> Vec<MapElement> {
    let mut elements = Vec::new();
    for family in FAMILIES {
        append_ranges(
            MapId::Map(Map::Pods, family),
            family,
            settings.pods.ranges(),
            &mut elements,
        );
        append_ranges(
            MapId::Map(Map::ServiceCidrs, family),
            family,
            &settings.service_cidrs,
            &mut elements,
        );
        let map_id = MapId::Map(Map::NodePortAddresses, family);
        let addresses = settings.node_port_ips(family).unwrap_or_default();
        elements.extend(
            addresses
                .into_iter()
                .map(|ip| MapElement::key(map_id, MapBytes::new().address(ip))),
        );
    }
    elements
}

/// Appends CIDRs. Each one becomes two elements: its first address, and the first address after it, if there is one.
fn append_ranges(map_id: MapId, family: Family, ranges: &[IpNet], elements: &mut Vec<MapElement>) {
    let own: Vec<IpNet> = ranges
        .iter()
        .copied()
        .filter(|range| Family::of(range.addr()) == family)
        .collect();
    for range in IpNet::aggregate(&own) {
        elements.push(MapElement::key(map_id, MapBytes::new().address(range.network())));
        if let Some(end) = next(range.broadcast()) {
            elements.push(MapElement {
                is_interval_end: true,
                ..MapElement::key(map_id, MapBytes::new().address(end))
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
