//! Names and versions of the protocols, and their negotiation.

use serde_json::Value;

use crate::channels::Encoding;

/// Header in which SPDY clients list protocols, and the server selects one.
pub const STREAM_PROTOCOL_HEADER: &str = "x-stream-protocol-version";
/// Protocols of commands over SPDY, the preferred one first.
pub const REMOTE_COMMAND_SPDY: [&str; 4] = [
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];
/// Protocols of commands over WebSocket.
pub const REMOTE_COMMAND_WEBSOCKET: [&str; 7] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
];
/// Protocol of forwarded ports over SPDY.
pub const PORT_FORWARD_SPDY: [&str; 1] = ["portforward.k8s.io"];
/// Protocol of forwarded ports over WebSocket whose binary messages carry a SPDY connection.
pub const PORT_FORWARD_TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// Protocols of forwarded ports over WebSocket: the tunnel, and channels for the ports of the request.
pub const PORT_FORWARD_WEBSOCKET: [&str; 3] = [
    PORT_FORWARD_TUNNEL,
    "v4.base64.channel.k8s.io",
    "v4.channel.k8s.io",
];

/// Stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output, or the output of the terminal.
    Output,
    /// Standard error.
    Error,
    /// Result of the command.
    Status,
    /// Sizes of the terminal.
    Resize,
}

impl Stream {
    /// Returns the stream with the value of a SPDY header `streamType`.
    pub fn of_type(name: &str) -> Option<Self> {
        match name {
            "stdin" => Some(Self::Input),
            "stdout" => Some(Self::Output),
            "stderr" => Some(Self::Error),
            "error" => Some(Self::Status),
            "resize" => Some(Self::Resize),
            _ => None,
        }
    }
}

/// Returns the first protocol of the client that the server has.
pub fn negotiate(client: &[&str], server: &'static [&'static str]) -> Option<&'static str> {
    let has = |name: &&str| server.iter().find(|own| *own == name).copied();
    client.iter().find_map(has)
}

/// Features of a negotiated protocol of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandProtocol {
    /// Encoding of WebSocket messages.
    pub encoding: Encoding,
    /// True if the result is a Status in JSON; a text otherwise.
    pub has_status: bool,
    /// True if the client sends sizes of the terminal.
    pub has_resize: bool,
}

impl CommandProtocol {
    /// Features of the protocol with a name.
    pub fn of(name: &str) -> Self {
        let encoding = if name.contains("base64") {
            Encoding::Base64
        } else {
            Encoding::Binary
        };
        let is_since = |versions: &[&str]| versions.iter().any(|version| name.starts_with(version));
        Self {
            encoding,
            has_status: is_since(&["v4.", "v5."]),
            has_resize: is_since(&["v3.", "v4.", "v5."]),
        }
    }
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

impl TerminalSize {
    /// Parses a message of the resize stream.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(message).ok()?;
        let field = |name: &str| {
            value
                .get(name)?
                .as_u64()
                .and_then(|number| u16::try_from(number).ok())
        };
        Some(Self {
            width: field("Width")?,
            height: field("Height")?,
        })
    }
}

#[cfg(test)]
mod tests;
