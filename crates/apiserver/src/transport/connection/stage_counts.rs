//! Counts of connections by stage, with limits for each stage and each source address. Pure.
//!
//! A client authenticates by a certificate in its TLS handshake, or by a token in a request. Until then its connection
//! counts in small pools. Clients without credentials can fill only these pools. A client with a certificate needs a
//! place in the pool of handshakes, and then one in a pool for certificates.

use super::source::Source;
use crate::limited_pool::{Bounds, ExceededLimit, LimitedPool, ReserveAccess};

/// Maximum number of open connections: 5,000 nodes with a few components, one HTTP/2 connection each, and clients of
/// people.
pub(super) const CONNECTIONS_MAX: u32 = 20_000;

/// Concurrent handshakes. Each costs a signature and about 30 KiB, and ends within
/// [`super::limits::HANDSHAKE_TIMEOUT`].
const HANDSHAKES_MAX: u32 = 1_024;

/// Maximum number of connections without credentials: health checks, and clients before their first request.
const UNAUTHENTICATED_MAX: u32 = 2_000;

/// Maximum number of connections with a token. The rest of [`CONNECTIONS_MAX`] is for certificates: nodes and
/// components of the cluster.
const WITH_TOKEN_MAX: u32 = 8_000;

/// Divisors of `--max-connections-per-address` for connections in their handshake, and without credentials.
const HANDSHAKES_DIVISOR: u32 = 16;
const UNAUTHENTICATED_DIVISOR: u32 = 4;

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The TLS handshake is not complete.
    Handshake,
    /// The client is not authenticated.
    Unauthenticated,
    /// A request brought a valid token.
    WithToken,
    /// The client has a certificate of the cluster CA.
    WithCertificate,
    /// The client has a certificate of `system:masters`.
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

    /// Returns the value of the label `stage` of metrics.
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

/// Open connections, by stage and source.
#[derive(Debug)]
pub(super) struct StageCounts {
    stages: [LimitedPool<Source>; Stage::ALL.len()],
}

impl StageCounts {
    /// Creates empty counts with a limit for each address; 0 means no limit.
    pub(super) fn new(per_address: u32) -> StageCounts {
        let share = |divisor: u32| match per_address {
            0 => u32::MAX,
            limit => limit.div_ceil(divisor),
        };
        let pool = |total, per_address| {
            LimitedPool::new(Bounds {
                total,
                without_reserve: total,
                per_holder: per_address,
                per_reserved_holder: per_address,
            })
        };
        StageCounts {
            stages: Stage::ALL.map(|stage| match stage {
                Stage::Handshake => pool(HANDSHAKES_MAX, share(HANDSHAKES_DIVISOR)),
                Stage::Unauthenticated => pool(UNAUTHENTICATED_MAX, share(UNAUTHENTICATED_DIVISOR)),
                Stage::WithToken => pool(WITH_TOKEN_MAX, share(1)),
                Stage::WithCertificate => pool(CONNECTIONS_MAX, share(1)),
                Stage::Exempt => pool(CONNECTIONS_MAX, u32::MAX),
            }),
        }
    }

    /// Counts a new connection, in its handshake.
    ///
    /// # Errors
    /// Limit that is exceeded.
    pub(super) fn enter(&mut self, source: Source) -> Result<(), ExceededLimit> {
        let open: u32 = Stage::ALL.iter().map(|stage| self.open(*stage)).sum();
        if open >= CONNECTIONS_MAX {
            return Err(ExceededLimit::Total);
        }
        self.pool(Stage::Handshake).take(source, 1, ReserveAccess::Common)
    }

    /// Moves a connection to another stage.
    ///
    /// # Errors
    /// Limit that is exceeded; the connection stays in its stage.
    pub(super) fn advance(&mut self, source: Source, from: Stage, to: Stage) -> Result<(), ExceededLimit> {
        self.pool(to).take(source, 1, ReserveAccess::Common)?;
        self.leave(source, from);
        Ok(())
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, source: Source, stage: Stage) {
        self.pool(stage).release(&source, 1);
    }

    /// Returns the number of connections of a stage.
    pub(super) fn open(&self, stage: Stage) -> u32 {
        self.stages[stage as usize].held()
    }

    fn pool(&mut self, stage: Stage) -> &mut LimitedPool<Source> {
        &mut self.stages[stage as usize]
    }
}

#[cfg(test)]
mod tests;
