//! Levels of the Pod Security Standards, and versions of their checks.

use std::fmt;

/// Level of a policy, in ascending strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No restrictions.
    Privileged,
    /// Prevents known privilege escalations.
    Baseline,
    /// Requires current hardening practices.
    Restricted,
}

impl Level {
    /// Parses the name of a level.
    ///
    /// # Errors
    /// Returns upstream's message for unknown levels.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }

    /// Returns the name in labels and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Kubernetes version whose checks apply. `Latest` is newer than all numbered versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `v1.N`.
    Minor(u64),
    /// `latest`: the newest checks of this program.
    Latest,
}

impl Version {
    /// Parses `latest` or `v1.N`.
    ///
    /// # Errors
    /// Returns upstream's message for other text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = r#"must be "latest" or "v1.x""#;
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").ok_or(EXPECTED)?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        if !is_number || has_leading_zero {
            return Err(EXPECTED);
        }
        // Go parses the number as a signed 64-bit integer.
        match digits.parse::<i64>().map(u64::try_from) {
            Ok(Ok(minor)) => Ok(Self::Minor(minor)),
            _ => Err(EXPECTED),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

/// A level and version, for example `restricted:v1.36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelVersion {
    /// Level of the policy.
    pub level: Level,
    /// Version of the checks.
    pub version: Version,
}

impl LevelVersion {
    /// No restrictions.
    pub const PRIVILEGED: Self = Self {
        level: Level::Privileged,
        version: Version::Latest,
    };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}
