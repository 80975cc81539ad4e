//! Indexes of endpoints. A change of one endpoint changes the index of at most one other endpoint. An endpoint keeps
//! its index unless the set shrinks below it, regardless of the order in the plan.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use plan::{Backend, Family};

/// Endpoints by index, packed as address, port and the flag [`Backend::can_be_local`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedEndpoints {
    packed: Box<[u8]>,
    family: Family,
}

const fn address_bytes(family: Family) -> usize {
    super::layout::address_bytes(family)
}

impl IndexedEndpoints {
    /// Assigns indexes to the desired endpoints; each keeps the index that it has in `former`, if possible.
    pub(super) fn assign(family: Family, former: &[SocketAddr], desired: &[Backend]) -> Self {
        let mut by_index: Vec<Option<Backend>> = vec![None; desired.len()];
        let mut rest: Vec<Backend> = Vec::new();
        let mut indexes: Vec<(SocketAddr, usize)> = former.iter().copied().zip(0..).collect();
        indexes.sort_unstable();
        let index_of = |backend: &Backend| {
            let at = indexes.binary_search_by_key(&backend.address, |(address, _)| *address);
            at.ok().and_then(|at| indexes.get(at)).map(|(_, index)| *index)
        };
        for backend in desired {
            match index_of(backend).and_then(|index| by_index.get_mut(index)) {
                Some(entry) if entry.is_none() => *entry = Some(*backend),
                _ => rest.push(*backend),
            }
        }
        let mut rest = rest.into_iter();
        let mut packed = Vec::with_capacity(desired.len() * (address_bytes(family) + 3));
        for backend in by_index
            .into_iter()
            .filter_map(|entry| entry.or_else(|| rest.next()))
        {
            match backend.address.ip() {
                IpAddr::V4(ip) => packed.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => packed.extend_from_slice(&ip.octets()),
            }
            packed.extend_from_slice(&backend.address.port().to_be_bytes());
            packed.push(u8::from(backend.can_be_local));
        }
        Self {
            packed: packed.into_boxed_slice(),
            family,
        }
    }

    /// Returns the endpoints in the order of their indexes.
    pub(super) fn iter(&self) -> impl Iterator<Item = Backend> + '_ {
        let bytes = address_bytes(self.family);
        self.packed.chunks_exact(bytes + 3).filter_map(move |packed| {
            let (ip, rest) = packed.split_at_checked(bytes)?;
            let [high, low, can_be_local] = *rest else {
                return None;
            };
            let ip = match self.family {
                Family::V4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?)),
                Family::V6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
            };
            Some(Backend {
                address: SocketAddr::new(ip, u16::from_be_bytes([high, low])),
                can_be_local: can_be_local != 0,
            })
        })
    }
}

#[cfg(test)]
mod tests;
