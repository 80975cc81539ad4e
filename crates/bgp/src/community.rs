//! Communities of routes: standard (RFC 1997), large (RFC 8092), and their text forms.

use std::fmt;
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// A standard community.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Community(pub u32);

impl Community {
    /// Requests that the peer prefers other routes, because this one disappears soon (RFC 8326).
    pub const GRACEFUL_SHUTDOWN: Self = Self(0xffff_0000);
    /// Forbids to advertise the route to any other peer (RFC 1997).
    pub const NO_ADVERTISE: Self = Self(0xffff_ff02);
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// A large community: administrator and two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LargeCommunity(pub [u32; 3]);

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [administrator, first, second] = self.0;
        write!(f, "{administrator}:{first}:{second}")
    }
}

/// A community of one of the kinds that text can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyCommunity {
    /// Standard, such as `64512:100`.
    Standard(Community),
    /// Large, such as `large:64512:1:2`.
    Large(LargeCommunity),
}

/// Text that is not a community.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a community such as 64512:100 or large:64512:1:2, found {0:?}")]
pub struct InvalidCommunity(String);

/// Names of standard communities that routers accept.
const WELL_KNOWN: [(&str, Community); 7] = [
    ("graceful-shutdown", Community::GRACEFUL_SHUTDOWN),
    ("accept-own", Community(0xffff_0001)),
    ("blackhole", Community(0xffff_029a)),
    ("no-export", Community(0xffff_ff01)),
    ("no-advertise", Community::NO_ADVERTISE),
    ("local-AS", Community(0xffff_ff03)),
    ("no-peer", Community(0xffff_ff04)),
];

impl FromStr for AnyCommunity {
    type Err = InvalidCommunity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidCommunity(text.chars().take(100).collect());
        if let Some((_, community)) = WELL_KNOWN.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Standard(*community));
        }
        if let Some(numbers) = text.strip_prefix("large:") {
            return numbers_of::<3, u32>(numbers)
                .map(|numbers| Self::Large(LargeCommunity(numbers)))
                .ok_or_else(invalid);
        }
        let [high, low] = numbers_of::<2, u16>(text).ok_or_else(invalid)?;
        Ok(Self::Standard(Community(u32::from(high) << 16 | u32::from(low))))
    }
}

/// Parses exactly `COUNT` decimal numbers between colons.
fn numbers_of<const COUNT: usize, N: FromStr + Copy + Default>(text: &str) -> Option<[N; COUNT]> {
    let mut numbers = [N::default(); COUNT];
    let mut parts = text.split(':');
    for number in &mut numbers {
        let part = parts.next()?;
        let is_decimal = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_decimal)?;
    }
    parts.next().is_none().then_some(numbers)
}
