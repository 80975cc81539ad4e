//! Platform of an image: operating system, architecture and variant, in the terms of Go.

use std::fmt;

use serde::Deserialize;

use crate::text::printable;

#[cfg(test)]
mod tests;

/// Operating system, architecture and variant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// Operating system: `linux`.
    #[serde(default)]
    pub os: String,
    /// Architecture: `amd64`, `arm64`.
    #[serde(default)]
    pub architecture: String,
    /// Variant of the architecture: `v8`; empty if none is meant.
    #[serde(default)]
    pub variant: String,
}

impl Platform {
    /// Returns the platform of this host.
    pub fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", "v7"),
            "x86" => ("386", ""),
            "powerpc64" => ("ppc64le", ""),
            other => (other, ""),
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.to_owned(),
        }
    }

    /// Returns the platform with printable parts, for messages.
    pub(crate) fn printable(&self) -> Self {
        Self {
            os: printable(&self.os),
            architecture: printable(&self.architecture),
            variant: printable(&self.variant),
        }
    }

    /// Returns the preference for an image of platform `offered` on this one: a lower value is better, `None` cannot
    /// run.
    pub(crate) fn preference_of(&self, offered: &Self) -> Option<u8> {
        if self.os != offered.os || self.architecture != offered.architecture {
            return None;
        }
        if self.variant == offered.variant {
            return Some(0);
        }
        match (self.architecture.as_str(), offered.variant.as_str()) {
            (_, "") => Some(1),
            ("arm64", "v8") => Some(1),
            // Processors run the instructions of earlier variants: v6 on v7, v5 on both.
            ("arm", "v6") if self.variant == "v7" => Some(2),
            ("arm", "v5") if matches!(self.variant.as_str(), "v6" | "v7") => Some(3),
            _ => None,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(formatter, "/{}", self.variant)?;
        }
        Ok(())
    }
}
