//! Decision about a pull (`imagePullPolicy`). Pure.

use ::images::Reference;

#[cfg(test)]
mod tests;

/// Condition of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    /// Pull before each start of the container.
    Always,
    /// Pull if the node does not have the image.
    IfNotPresent,
    /// Never pull.
    Never,
}

impl PullPolicy {
    /// Returns the policy of a container. Without one, an image without a digest and with the tag `latest` is
    /// always pulled. The API has the same default.
    pub(crate) fn of(policy: &str, reference: &Reference) -> Self {
        match policy {
            "Always" => Self::Always,
            "Never" => Self::Never,
            "IfNotPresent" => Self::IfNotPresent,
            _ if reference.digest().is_none() && reference.tag() == Some("latest") => Self::Always,
            _ => Self::IfNotPresent,
        }
    }
}
