//! Connections by how far they have come, with bounds for each stage and each source address. Pure.
//!
//! A connection proves who it is by a certificate in its TLS handshake, or by a token in a request. Until then it counts in
//! small pools, which whoever has no credentials can fill without harm: a client with a certificate passes through the pool
//! of handshakes only, and the room behind it is its own.

use std::net::{IpAddr, Ipv6Addr};

use crate::portions::{Bounds, Claim, Exceeded, Portions};

/// Connections at a time. 5,000 nodes with a handful of components each, which share one HTTP/2 connection apiece, and room
/// for people.
pub(super) const CONNECTIONS_MAX: u32 = 20_000;

/// Handshakes at a time: each costs a signature and some 30 KiB, and ends within [`super::limits::HANDSHAKE_TIMEOUT`].
const HANDSHAKES_MAX: u32 = 1_024;

/// Connections without any proof yet: such as health checks, and clients on the way to their first request.
const UNAUTHENTICATED_MAX: u32 = 2_000;

/// Connections whose proof is a token. What remains of [`CONNECTIONS_MAX`] is for those with certificates: nodes and the
/// cluster's own parts.
const WITH_TOKEN_MAX: u32 = 8_000;

/// Parts of `--max-connections-per-address` that may be in their handshake, or without a proof.
const HANDSHAKES_PART: u32 = 16;
const UNAUTHENTICATED_PART: u32 = 4;

/// The source of a connection: an IPv4 address, or the 64 bits of an IPv6 address that a host cannot choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        Source(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
            address => address,
        })
    }
}

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In its TLS handshake.
    Handshake,
    /// The client is not authenticated.
    Unauthenticated,
    /// A request brought a valid token.
    WithToken,
    /// The client has a certificate of the cluster CA.
    WithCertificate,
    /// A certificate of `system:masters`.
    Exempt,
}

impl Stage {
    pub(super) const ALL: [Stage; 5] = [
        Stage::Handshake,
        Stage::Unauthenticated,
        Stage::WithToken,
        Stage::WithCertificate,
        Stage::Exempt,
    ];

    /// The label of metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Stage::Handshake => "handshake",
            Stage::Unauthenticated => "unauthenticated",
            Stage::WithToken => "token",
            Stage::WithCertificate => "certificate",
            Stage::Exempt => "exempt",
        }
    }
}

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Census {
    stages: [Portions<Source>; Stage::ALL.len()],
}

impl Census {
    /// With a bound for each address; 0 for none.
    pub(super) fn new(per_address: u32) -> Census {
        let part = |divisor: u32| match per_address {
            0 => u32::MAX,
            bound => bound.div_ceil(divisor),
        };
        let pool = |total, per_address| {
            Portions::new(Bounds {
                total,
                without_reserve: total,
                per_holder: per_address,
                per_reserved_holder: per_address,
            })
        };
        Census {
            stages: Stage::ALL.map(|stage| match stage {
                Stage::Handshake => pool(HANDSHAKES_MAX, part(HANDSHAKES_PART)),
                Stage::Unauthenticated => pool(UNAUTHENTICATED_MAX, part(UNAUTHENTICATED_PART)),
                Stage::WithToken => pool(WITH_TOKEN_MAX, part(1)),
                Stage::WithCertificate => pool(CONNECTIONS_MAX, part(1)),
                Stage::Exempt => pool(CONNECTIONS_MAX, u32::MAX),
            }),
        }
    }

    /// A connection arrives, in its handshake.
    ///
    /// # Errors
    /// The bound that stands in the way.
    pub(super) fn arrive(&mut self, source: Source) -> Result<(), Exceeded> {
        let open: u32 = Stage::ALL.iter().map(|stage| self.open(*stage)).sum();
        if open >= CONNECTIONS_MAX {
            return Err(Exceeded::Total);
        }
        self.pool(Stage::Handshake).take(source, 1, Claim::Common)
    }

    /// A connection goes on to another stage.
    ///
    /// # Errors
    /// The bound that stands in the way; it stays in its stage then.
    pub(super) fn advance(&mut self, source: Source, from: Stage, to: Stage) -> Result<(), Exceeded> {
        self.pool(to).take(source, 1, Claim::Common)?;
        self.leave(source, from);
        Ok(())
    }

    /// A connection ends.
    pub(super) fn leave(&mut self, source: Source, stage: Stage) {
        self.pool(stage).give_back(&source, 1);
    }

    /// Connections of a stage.
    pub(super) fn open(&self, stage: Stage) -> u32 {
        self.stages[stage as usize].held()
    }

    fn pool(&mut self, stage: Stage) -> &mut Portions<Source> {
        &mut self.stages[stage as usize]
    }
}

#[cfg(test)]
mod tests;
