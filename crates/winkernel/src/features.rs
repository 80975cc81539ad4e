//! Features of an HNS version.

use crate::schema::HnsVersion;

/// Features of HNS that the proxy uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Schema version 2 and policies for remote subnets. The mode needs it.
    pub schema_v2: bool,
    /// Direct server return.
    pub dsr: bool,
    /// Distribution by the client's address.
    pub session_affinity: bool,
    /// Both IP families.
    pub dual_stack: bool,
}

impl Features {
    /// Returns the features of a version.
    pub fn of(version: HnsVersion) -> Self {
        let since = |major, minor| version >= HnsVersion { major, minor };
        Self {
            schema_v2: since(9, 2),
            // 10.0 and 10.1 are older than 9.3.
            dsr: (version.major == 9 && version.minor >= 3) || since(10, 2),
            session_affinity: since(12, 0),
            dual_stack: since(11, 10),
        }
    }
}

#[cfg(test)]
mod tests;
