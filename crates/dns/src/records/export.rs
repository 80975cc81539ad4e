//! Export of all records of the zone, for zone transfers.

use std::net::IpAddr;
use std::sync::PoisonError;

use super::Index;
use super::grammar::Part;
use super::resolve::{SCHEMA_TTL_SECONDS, SCHEMA_VERSION};
use super::selection::Selection;
use super::service::Port;

/// A record of the zone. Names are the labels below the zone, in wire form without the root label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneRecord {
    /// A or AAAA.
    Address {
        /// Owner name.
        owner: Box<[u8]>,
        /// IPv4 address for A, IPv6 address for AAAA.
        address: IpAddr,
    },
    /// CNAME.
    Alias {
        /// Owner name.
        owner: Box<[u8]>,
        /// Complete target name.
        target: Box<[u8]>,
    },
    /// SRV.
    Location {
        /// Owner name.
        owner: Box<[u8]>,
        /// Port number.
        port: u16,
        /// Weight (RFC 2782).
        weight: u16,
        /// Target name.
        target: Box<[u8]>,
    },
    /// NS of the zone.
    NameServer {
        /// Target name.
        target: Box<[u8]>,
    },
    /// TXT.
    Text {
        /// Owner name.
        owner: Box<[u8]>,
        /// TTL in seconds.
        ttl_seconds: u32,
        /// Content, one character string.
        text: &'static str,
    },
}

impl Index {
    /// Calls `visit` with every record except SOA. Changes wait, so that all records belong to one version of the
    /// zone.
    pub fn for_each_record(&self, mut visit: impl FnMut(ZoneRecord)) {
        let _no_changes = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        visit(ZoneRecord::Text {
            owner: (*b"\x0bdns-version").into(),
            ttl_seconds: SCHEMA_TTL_SECONDS,
            text: SCHEMA_VERSION,
        });
        for (target, address) in self.name_servers() {
            let target: Box<[u8]> = target.into();
            visit(ZoneRecord::NameServer {
                target: target.clone(),
            });
            if *target == *b"\x02ns\x03dns" {
                visit(ZoneRecord::Address {
                    owner: target,
                    address,
                });
            }
        }
        for shard in &self.services {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            for (key, entry) in shard.iter() {
                let name = [key.labels(), b"\x03svc"].concat();
                records_of(&name, self.filter(key.labels(), entry, Part::Whole), &mut visit);
            }
        }
    }
}

/// Calls `visit` with each record of a name.
fn records_of(name: &[u8], selection: Selection<'_>, visit: &mut impl FnMut(ZoneRecord)) {
    match selection {
        Selection::Nothing => {}
        Selection::External(target) => visit(ZoneRecord::Alias {
            owner: name.into(),
            target: target.into(),
        }),
        Selection::ClusterIps(addresses, ports) => {
            for address in addresses {
                visit(ZoneRecord::Address {
                    owner: name.into(),
                    address: *address,
                });
            }
            for port in ports.iter() {
                visit_location(name, port, name, visit);
            }
        }
        Selection::Endpoints(endpoints) => {
            for (slice, endpoint) in endpoints.iter() {
                let endpoint_name = [slice.labels_of(endpoint).as_wire(), name].concat();
                for owner in [name, &endpoint_name] {
                    visit(ZoneRecord::Address {
                        owner: owner.into(),
                        address: endpoint.address,
                    });
                }
                for port in slice.ports.iter() {
                    visit_location(name, port, &endpoint_name, visit);
                }
            }
        }
    }
}

/// Visits the SRV record of a named port.
fn visit_location(name: &[u8], port: &Port, target: &[u8], visit: &mut impl FnMut(ZoneRecord)) {
    let (Some(number), Some(protocol)) = (port.number, port.protocol) else {
        return;
    };
    let Ok(length) = u8::try_from(port.name.len()) else {
        return;
    };
    if length == 0 || length > 62 {
        return;
    }
    let protocol = protocol.as_str().to_ascii_lowercase();
    let mut owner = vec![length + 1, b'_'];
    owner.extend(port.name.as_bytes());
    owner.push(u8::try_from(protocol.len() + 1).unwrap_or(1));
    owner.push(b'_');
    owner.extend(protocol.as_bytes());
    owner.extend(name);
    visit(ZoneRecord::Location {
        owner: owner.into(),
        port: number,
        weight: 1,
        target: target.into(),
    });
}
