//! Pod names (DNS-14): the name contains the address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the longest textual address.
const ADDRESS_BYTES_MAX: usize = 45;

/// Returns the address that a label in lower case spells with dashes: `10-244-9-9` or `fd00-244--5`.
pub(super) fn address_of_label(label: &[u8]) -> Option<IpAddr> {
    let mut text = [0; ADDRESS_BYTES_MAX];
    let text = text.get_mut(..label.len())?;
    let dashes = label.iter().filter(|byte| **byte == b'-').count();
    let is_v4 = dashes == 3 && !label.windows(2).any(|pair| pair == b"--");
    let separator = if is_v4 { b'.' } else { b':' };
    for (out, byte) in text.iter_mut().zip(label) {
        *out = if *byte == b'-' { separator } else { *byte };
    }
    let text = std::str::from_utf8(text).ok()?;
    if is_v4 {
        text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    } else {
        text.parse::<Ipv6Addr>()
            .ok()
            .map(|address| IpAddr::V6(address).to_canonical())
    }
}
