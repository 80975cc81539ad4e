//! Attacks of `bench siege`.

use clap::ValueEnum;

/// An attack on `portolan up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// No attack: the figures to compare with
    None,
    /// TLS connections that never send a request
    SilentConnections,
    /// TLS connections that send half of the HTTP/2 preface
    HalfPrefaces,
    /// TCP connections that never start a TLS handshake
    SilentSockets,
    /// TLS handshakes, one after the other
    Handshakes,
    /// Requests with forged tokens
    ForgedTokens,
    /// 200 requests of a Pod whose bodies arrive at a byte every nine seconds
    SlowBodies,
    /// Incomplete bodies of almost 3 MiB, sent by a Pod
    LargeBodies,
    /// Authorized requests of a Pod, as fast as 64 connections carry them
    Requests,
    /// Watches of an editor, as many as the server admits
    Watches,
    /// Lists of all objects of a namespace by an editor, as fast as 16 connections carry them
    Lists,
    /// JSON patches of an editor that build deep trees
    PatchBombs,
    /// Requests of an editor that the server proxies to a Pod that never answers
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
    /// Credentials of the attacker.
    pub(super) fn credentials(self) -> Credentials {
        match self {
            Self::None
            | Self::SilentConnections
            | Self::HalfPrefaces
            | Self::SilentSockets
            | Self::Handshakes
            | Self::ForgedTokens => Credentials::None,
            Self::SlowBodies | Self::LargeBodies | Self::Requests => Credentials::Pod,
            Self::Watches | Self::Lists | Self::PatchBombs | Self::ProxiedRequests => Credentials::Editor,
        }
    }

    /// Name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
