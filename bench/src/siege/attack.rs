//! The attacks of `bench siege`, and the credentials that they need.

use clap::ValueEnum;

/// An attack on `portolan up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// No attack, for comparison
    None,
    /// TLS connections that never send a request
    IdleConnections,
    /// TLS connections that send a part of the HTTP/2 preface
    PartialPrefaces,
    /// TCP connections that never start a TLS handshake
    IdleSockets,
    /// TLS handshakes, one after the other
    Handshakes,
    /// Requests with forged tokens
    ForgedTokens,
    /// 200 requests of a Pod whose bodies arrive one byte every nine seconds
    SlowBodies,
    /// Incomplete bodies of almost 3 MiB, sent by a Pod
    LargeBodies,
    /// Authorized requests of a Pod on 64 connections, each after the response to the previous one
    Requests,
    /// As many watches of an editor as the server admits
    Watches,
    /// Lists of all ConfigMaps of a namespace by an editor on 16 connections, each after the response to the previous
    /// one
    Lists,
    /// JSON patches of an editor that build deeply nested objects
    NestedPatches,
    /// Requests of an editor that the server proxies to a Pod that never responds
    ProxiedRequests,
}

/// Credentials that an attack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// None.
    None,
    /// The token of a Pod's ServiceAccount without any binding.
    Pod,
    /// The token of a ServiceAccount with the ClusterRole `edit` in one namespace.
    Editor,
}

impl Attack {
    /// Returns the credentials of the attacker.
    pub(super) fn credentials(self) -> Credentials {
        match self {
            Self::None
            | Self::IdleConnections
            | Self::PartialPrefaces
            | Self::IdleSockets
            | Self::Handshakes
            | Self::ForgedTokens => Credentials::None,
            Self::SlowBodies | Self::LargeBodies | Self::Requests => Credentials::Pod,
            Self::Watches | Self::Lists | Self::NestedPatches | Self::ProxiedRequests => Credentials::Editor,
        }
    }

    /// Returns the name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
