//! All records of the zone, for transfers.

use std::net::IpAddr;
use std::sync::PoisonError;

use super::Index;
use super::grammar::Part;
use super::resolve::{SCHEMA_TTL_SECONDS, SCHEMA_VERSION};
use super::select::Selection;
use super::service::Port;

/// A record of the zone. Names are labels in front of the zone, in wire form without a root label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneRecord {
    /// A or AAAA.
    Address {
        /// Whose.
        owner: Box<[u8]>,
        /// The address.
        address: IpAddr,
    },
    /// CNAME.
    Alias {
        /// Whose.
        owner: Box<[u8]>,
        /// The whole name that it stands for.
        target: Box<[u8]>,
    },
    /// SRV.
    Location {
        /// Whose.
        owner: Box<[u8]>,
        /// Number of the port.
        port: u16,
        /// Share among its like.
        weight: u16,
        /// Who has the port.
        target: Box<[u8]>,
    },
    /// NS of the zone.
    NameServer {
        /// The server.
        target: Box<[u8]>,
    },
    /// TXT.
    Text {
        /// Whose.
        owner: Box<[u8]>,
        /// Seconds for which it may be kept.
        ttl_seconds: u32,
        /// The text.
        text: &'static str,
    },
}

impl Index {
    /// Calls `take` with every record but SOA, all of one moment: changes wait until it is over.
    pub fn each_record(&self, mut take: impl FnMut(ZoneRecord)) {
        let _still = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        take(ZoneRecord::Text {
            owner: (*b"\x0bdns-version").into(),
            ttl_seconds: SCHEMA_TTL_SECONDS,
            text: SCHEMA_VERSION,
        });
        for (target, address) in self.name_servers() {
            let target: Box<[u8]> = target.into();
            take(ZoneRecord::NameServer {
                target: target.clone(),
            });
            if *target == *b"\x02ns\x03dns" {
                take(ZoneRecord::Address {
                    owner: target,
                    address,
                });
            }
        }
        for shard in &self.services {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            for (key, entry) in shard.iter() {
                let name = [key.labels(), b"\x03svc"].concat();
                records_of(&name, self.select(key.labels(), entry, Part::Whole), &mut take);
            }
        }
    }
}

fn records_of(name: &[u8], selection: Selection<'_>, take: &mut impl FnMut(ZoneRecord)) {
    match selection {
        Selection::Nothing => {}
        Selection::External(target) => take(ZoneRecord::Alias {
            owner: name.into(),
            target: target.into(),
        }),
        Selection::ClusterIps(addresses, ports) => {
            for address in addresses {
                take(ZoneRecord::Address {
                    owner: name.into(),
                    address: *address,
                });
            }
            for port in ports.iter() {
                locate(name, port, name, take);
            }
        }
        Selection::Endpoints(endpoints) => {
            for (slice, endpoint) in endpoints.iter() {
                let own = [endpoint.label().as_wire(), name].concat();
                for owner in [name, &own] {
                    take(ZoneRecord::Address {
                        owner: owner.into(),
                        address: endpoint.address,
                    });
                }
                for port in slice.ports.iter() {
                    locate(name, port, &own, take);
                }
            }
        }
    }
}

/// The SRV record of a named port.
fn locate(name: &[u8], port: &Port, target: &[u8], take: &mut impl FnMut(ZoneRecord)) {
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
    take(ZoneRecord::Location {
        owner: owner.into(),
        port: number,
        weight: 1,
        target: target.into(),
    });
}
