//! Binary format of the index, for the snapshot on disk.
//!
//! The format contains only the data that answers need. Texts and lists are prefixed with their lengths; numbers are
//! big-endian. Reading checks every part, and rejects the file if one part is invalid.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use api::object::{ObjectKey, Protocol};

use super::service::{Endpoint, Port, ServiceData, ServiceKey, ServiceKind, Slice};
use super::{Index, Settings};
use crate::wire::Name;

/// Malformed bytes. A retry with the same bytes fails as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed index at byte {at}")]
pub struct IndexFormatError {
    /// Offset at which reading stopped.
    pub at: usize,
}

impl Index {
    /// Appends all namespaces, Services and slices of one version of the index.
    pub fn save(&self, out: &mut Vec<u8>) {
        let slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        count(out, namespaces.len());
        for label in namespaces.iter() {
            bytes(out, label);
        }
        drop(namespaces);
        let objects: std::collections::HashMap<(&[u8], &str), &ObjectKey> = slices
            .iter()
            .map(|(object, key)| ((key.labels(), &*object.name), object))
            .collect();
        for shard in &self.services {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            count(out, shard.len());
            for (key, entry) in shard.iter() {
                bytes(out, key.labels());
                match &entry.service {
                    None => out.push(0),
                    Some(data) => {
                        out.push(1);
                        save_service(out, data);
                    }
                }
                count(out, entry.slices.len());
                for slice in &entry.slices {
                    let object = objects.get(&(key.labels(), &*slice.name));
                    bytes(out, object.map_or("", |object| &object.namespace).as_bytes());
                    save_slice(out, slice);
                }
            }
        }
    }

    /// Reads the bytes of [`Index::save`] into a new index, which is synced.
    ///
    /// # Errors
    ///
    /// Returns [`IndexFormatError`] if the bytes are malformed.
    pub fn load(settings: Settings, bytes: &[u8]) -> Result<Self, IndexFormatError> {
        let index = Self::new(settings);
        let mut reader = Reader { bytes, at: 0 };
        let read = index.read(&mut reader).filter(|()| reader.at == bytes.len());
        read.ok_or(IndexFormatError { at: reader.at })?;
        index.set_synced();
        Ok(index)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<()> {
        for _ in 0..reader.count()? {
            let label = reader.bytes()?;
            let mut name = Name::ROOT;
            name.push_wire(label).ok()?;
            let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
            namespaces.insert(label.into());
        }
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..super::SHARDS {
            for _ in 0..reader.count()? {
                let key = ServiceKey::from_labels(reader.bytes()?)?;
                if reader.byte()? == 1 {
                    let data = reader.service()?;
                    self.put_service(&key, Some(data));
                }
                for _ in 0..reader.count()? {
                    let namespace = reader.text()?;
                    let slice = reader.slice()?;
                    slices.insert(ObjectKey::new(namespace, &slice.name), key.clone());
                    let name = slice.name.clone();
                    self.put_slice(&key, &name, Some(slice));
                }
            }
        }
        Some(())
    }
}

fn save_service(out: &mut Vec<u8>, data: &ServiceData) {
    match &data.kind {
        ServiceKind::ClusterIp(addresses) => {
            out.push(0);
            count(out, addresses.len());
            for address in addresses {
                save_address(out, *address);
            }
        }
        ServiceKind::Headless => out.push(1),
        ServiceKind::External(None) => out.push(2),
        ServiceKind::External(Some(target)) => {
            out.push(3);
            bytes(out, target);
        }
    }
    save_ports(out, &data.ports);
    out.push(u8::from(data.publish_not_ready));
}

fn save_slice(out: &mut Vec<u8>, slice: &Slice) {
    bytes(out, slice.name.as_bytes());
    save_ports(out, &slice.ports);
    count(out, slice.endpoints().len());
    for endpoint in slice.endpoints() {
        save_address(out, endpoint.address);
        out.push(u8::from(endpoint.ready));
        bytes(out, endpoint.hostname.as_deref().unwrap_or_default().as_bytes());
    }
}

fn save_ports(out: &mut Vec<u8>, ports: &[Port]) {
    count(out, ports.len());
    for port in ports {
        bytes(out, port.name.as_bytes());
        out.push(port.protocol.map_or(0, Protocol::number));
        // 0 stands for no port: it is not a valid port number.
        out.extend(port.number.unwrap_or(0).to_be_bytes());
    }
}

fn save_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(6);
            out.extend(v6.octets());
        }
    }
}

fn count(out: &mut Vec<u8>, number: usize) {
    out.extend(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, bytes.len());
    out.extend(bytes);
}

/// Reader of the fields of a snapshot.
struct Reader<'s> {
    bytes: &'s [u8],
    at: usize,
}

impl<'s> Reader<'s> {
    fn take(&mut self, length: usize) -> Option<&'s [u8]> {
        let end = self.at.checked_add(length)?;
        let part = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(part)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(self.array()?)).ok()
    }

    fn bytes(&mut self) -> Option<&'s [u8]> {
        let length = self.count()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<&'s str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.byte()? {
            4 => Some(IpAddr::from(self.array::<4>()?)),
            6 => Some(IpAddr::from(self.array::<16>()?)),
            _ => None,
        }
    }

    fn service(&mut self) -> Option<ServiceData> {
        let kind = match self.byte()? {
            0 => {
                let mut addresses = Vec::new();
                for _ in 0..self.count()? {
                    addresses.push(self.address()?);
                }
                ServiceKind::ClusterIp(addresses.into())
            }
            1 => ServiceKind::Headless,
            2 => ServiceKind::External(None),
            3 => ServiceKind::External(Some(self.bytes()?.into())),
            _ => return None,
        };
        Some(ServiceData {
            kind,
            ports: self.ports()?,
            publish_not_ready: self.byte()? == 1,
        })
    }

    fn slice(&mut self) -> Option<Slice> {
        let name = self.text()?;
        let ports = self.ports()?;
        let mut endpoints = Vec::new();
        for _ in 0..self.count()? {
            let address = self.address()?;
            let ready = self.byte()? == 1;
            let hostname = self.text()?;
            let fits = Name::ROOT.with_label(hostname.as_bytes()).is_ok();
            let hostname: Option<Arc<str>> = match hostname {
                "" => None,
                hostname if fits => Some(hostname.into()),
                _ => return None,
            };
            endpoints.push(Endpoint {
                address,
                ready,
                hostname,
            });
        }
        Some(Slice::from_parts(name, ports, endpoints))
    }

    fn ports(&mut self) -> Option<Box<[Port]>> {
        let mut ports = Vec::new();
        for _ in 0..self.count()? {
            let name = self.text()?;
            let protocol = match self.byte()? {
                0 => None,
                6 => Some(Protocol::Tcp),
                17 => Some(Protocol::Udp),
                132 => Some(Protocol::Sctp),
                _ => return None,
            };
            let number = u16::from_be_bytes(self.array()?);
            ports.push(Port {
                name: name.into(),
                protocol,
                number: (number > 0).then_some(number),
            });
        }
        (!ports.is_empty()).then(|| ports.into())
    }
}
