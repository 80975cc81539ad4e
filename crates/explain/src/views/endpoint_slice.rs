//! View of an EndpointSlice and of its endpoints.

use std::net::IpAddr;
use std::ops::Deref;

use serde_json::Value;

use super::fields::{list, port_number, protocol, text};
use crate::object::Object;

/// Label with the name of the slice's Service.
pub(crate) const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Label with the writer of the slice.
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Writer of the slices of Services with a selector.
const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Writer of the slices that mirror Endpoints.
const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

/// An EndpointSlice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointSlice<'w>(pub &'w Object);

impl Deref for EndpointSlice<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Endpoint of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint<'w>(&'w Value);

impl<'w> Endpoint<'w> {
    /// Returns the addresses, as texts.
    pub(crate) fn addresses(self) -> impl Iterator<Item = &'w str> {
        list(self.0, "addresses").iter().filter_map(Value::as_str)
    }

    /// Returns the first address; proxies use only this one (KPR-13).
    pub(crate) fn ip(self) -> Option<IpAddr> {
        self.addresses().next()?.parse().ok()
    }

    /// Returns true if the endpoint is ready; an absent condition means ready (KPR-14).
    pub(crate) fn is_ready(self) -> bool {
        self.0["conditions"]["ready"].as_bool().unwrap_or(true)
    }

    /// Returns true if the endpoint serves, even while it terminates.
    pub(crate) fn is_serving(self) -> bool {
        let serving = self.0["conditions"]["serving"].as_bool();
        serving.unwrap_or_else(|| self.is_ready())
    }

    /// Returns true if the endpoint terminates.
    pub(crate) fn is_terminating(self) -> bool {
        self.0["conditions"]["terminating"].as_bool().unwrap_or(false)
    }

    /// Returns the host name in DNS, or "".
    pub(crate) fn hostname(self) -> &'w str {
        text(self.0, "hostname")
    }

    /// Returns the Node, or "".
    pub(crate) fn node(self) -> &'w str {
        text(self.0, "nodeName")
    }

    /// Returns the zone, or "".
    pub(crate) fn zone(self) -> &'w str {
        text(self.0, "zone")
    }

    /// Returns the zones that should use the endpoint.
    pub(crate) fn zone_hints(self) -> impl Iterator<Item = &'w str> {
        list(&self.0["hints"], "forZones")
            .iter()
            .map(|zone| text(zone, "name"))
    }

    /// Returns true if nodes should use the endpoint.
    pub(crate) fn has_node_hint(self) -> bool {
        !list(&self.0["hints"], "forNodes").is_empty()
    }

    /// Returns the name of the Pod behind the endpoint.
    pub(crate) fn pod(self) -> Option<&'w str> {
        let target = &self.0["targetRef"];
        (text(target, "kind") == "Pod").then(|| text(target, "name"))
    }
}

impl<'w> EndpointSlice<'w> {
    /// Returns the name of the Service that owns the slice.
    pub(crate) fn service_name(self) -> Option<&'w str> {
        self.0.label(SERVICE_NAME_LABEL).filter(|name| !name.is_empty())
    }

    /// Returns `IPv4`, `IPv6` or `FQDN`.
    pub(crate) fn address_type(self) -> &'w str {
        self.0.text("/addressType")
    }

    /// Returns true if the endpoint controller wrote the slice from Pods.
    pub(crate) fn is_from_selector(self) -> bool {
        self.0.label(MANAGED_BY_LABEL) == Some(SLICE_CONTROLLER)
    }

    /// Returns true if a label names the writer of the slice.
    pub(crate) fn has_writer(self) -> bool {
        self.0.label(MANAGED_BY_LABEL).is_some()
    }

    /// Returns true if the slice is a copy of Endpoints.
    pub(crate) fn is_mirrored(self) -> bool {
        self.0.label(MANAGED_BY_LABEL) == Some(MIRRORING_CONTROLLER)
    }

    /// Returns true if neither the endpoint controller nor the mirroring controller wrote the slice.
    pub(crate) fn is_from_other_writer(self) -> bool {
        !self.is_from_selector() && !self.is_mirrored()
    }

    /// Returns the endpoints.
    pub(crate) fn endpoints(self) -> impl Iterator<Item = Endpoint<'w>> {
        self.0.list("/endpoints").iter().map(Endpoint)
    }

    /// Returns the name, protocol and number of each port. The number is absent if all ports are meant.
    pub(crate) fn ports(self) -> impl Iterator<Item = (&'w str, &'w str, Option<u16>)> {
        let ports = self.0.list("/ports").iter();
        ports.map(|port| (text(port, "name"), protocol(port), port_number(port, "port")))
    }
}
