//! MAC addresses of remote endpoints.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// First bytes of the MAC addresses that kube-proxy gives to remote endpoints.
const PREFIX: [u8; 2] = [0x02, 0x11];

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

/// Text that is not a MAC address. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a MAC address such as 00-15-5d-00-00-01, found {0:?}")]
pub struct MacAddressError(pub String);

impl MacAddress {
    /// Returns the MAC address of the remote endpoint with this address. The prefix precedes the bytes of an IPv4
    /// address, or the last four bytes of an IPv6 address in reverse order. It never appears on a wire.
    pub fn of_remote_endpoint(address: IpAddr) -> Self {
        let [a, b] = PREFIX;
        let [c, d, e, f] = match address {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(ip) => {
                let [.., fourth, third, second, first] = ip.octets();
                [first, second, third, fourth]
            }
        };
        Self([a, b, c, d, e, f])
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    /// Parses six bytes with `-` or `:` between them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || MacAddressError(text.to_owned());
        let mut bytes = [0; 6];
        let mut groups = text.split(['-', ':']);
        for byte in &mut bytes {
            let group = groups
                .next()
                .filter(|group| group.len() == 2)
                .ok_or_else(invalid)?;
            let is_hex = group.bytes().all(|digit| digit.is_ascii_hexdigit());
            let value = u8::from_str_radix(group, 16).ok().filter(|_| is_hex);
            *byte = value.ok_or_else(invalid)?;
        }
        match groups.next() {
            Some(_) => Err(invalid()),
            None => Ok(Self(bytes)),
        }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}-{b:02x}-{c:02x}-{d:02x}-{e:02x}-{g:02x}")
    }
}

#[cfg(test)]
mod tests;
