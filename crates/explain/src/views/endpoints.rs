//! Endpoints, the older form of EndpointSlices.

use std::net::IpAddr;
use std::ops::Deref;

use serde_json::Value;

use super::fields::{list, port_number, protocol, text};
use crate::object::Object;

/// An Endpoints object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints<'w>(pub &'w Object);

impl Deref for Endpoints<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Address of a subset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointAddress<'w> {
    /// Path of the address, such as `subsets[0].addresses[1]`.
    pub index: (usize, usize),
    /// Returns true if the address is in `addresses`, false in `notReadyAddresses`.
    pub is_ready: bool,
    value: &'w Value,
}

impl<'w> EndpointAddress<'w> {
    /// Returns the address as text.
    pub(crate) fn text(self) -> &'w str {
        text(self.value, "ip")
    }

    /// Returns the address.
    pub(crate) fn ip(self) -> Option<IpAddr> {
        self.text().parse().ok()
    }

    /// Returns the Node, or "".
    pub(crate) fn node(self) -> &'w str {
        text(self.value, "nodeName")
    }

    /// Returns the name of the Pod behind the address.
    pub(crate) fn pod(self) -> Option<&'w str> {
        let target = &self.value["targetRef"];
        (text(target, "kind") == "Pod").then(|| text(target, "name"))
    }

    /// Returns the path of the address in its object.
    pub(crate) fn field(self) -> String {
        let list = if self.is_ready {
            "addresses"
        } else {
            "notReadyAddresses"
        };
        format!("subsets[{}].{list}[{}].ip", self.index.0, self.index.1)
    }
}

impl<'w> Endpoints<'w> {
    /// Returns the addresses of all subsets, ready or not.
    pub(crate) fn addresses(self) -> impl Iterator<Item = EndpointAddress<'w>> {
        let subsets = self.0.list("/subsets").iter().enumerate();
        subsets.flat_map(|(subset_index, subset)| {
            [("addresses", true), ("notReadyAddresses", false)]
                .into_iter()
                .flat_map(move |(field, is_ready)| {
                    let addresses = list(subset, field).iter().enumerate();
                    addresses.map(move |(index, value)| EndpointAddress {
                        index: (subset_index, index),
                        is_ready,
                        value,
                    })
                })
        })
    }

    /// Returns the name, protocol and number of each port.
    pub(crate) fn ports(self) -> impl Iterator<Item = (&'w str, &'w str, Option<u16>)> {
        let ports = self
            .0
            .list("/subsets")
            .iter()
            .flat_map(|subset| list(subset, "ports"));
        ports.map(|port| (text(port, "name"), protocol(port), port_number(port, "port")))
    }
}
