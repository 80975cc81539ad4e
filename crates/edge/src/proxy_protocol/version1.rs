//! Version 1: a line of text (`proxy-protocol.txt`, section 2.1).

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Addresses, Header, Malformed, Read};

/// How the line begins.
pub(super) const SIGNATURE: &[u8] = b"PROXY ";
/// The longest line, with its end.
const LINE_BYTES_MAX: usize = 107;
const END: &[u8] = b"\r\n";

pub(super) fn read(bytes: &[u8]) -> Result<Read, Malformed> {
    let window = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    let Some(feed) = window.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() < LINE_BYTES_MAX {
            true => Ok(Read::Incomplete),
            false => Err(wrong("the line has no end within 107 bytes")),
        };
    };
    let line = window.get(..=feed).and_then(|line| line.strip_suffix(END));
    let line = line.ok_or(wrong(
        "the line does not end with a carriage return and a line feed",
    ))?;
    let line = str::from_utf8(line).map_err(|_| wrong("the line is no text"))?;
    Ok(Read::Complete {
        header: parse(line)?,
        bytes: feed + 1,
    })
}

fn parse(line: &str) -> Result<Header, Malformed> {
    let mut words = line.split(' ').skip(1);
    let protocol = words.next();
    match protocol {
        // What follows is to be ignored.
        Some("UNKNOWN") => return Ok(Header::Own),
        Some("TCP4" | "TCP6") => {}
        _ => return Err(wrong("the protocol is none of TCP4, TCP6 and UNKNOWN")),
    }
    let (source, destination) = (words.next(), words.next());
    let (source_port, destination_port) = (port(words.next())?, port(words.next())?);
    if words.next().is_some() {
        return Err(wrong("something follows the ports"));
    }
    let (source, destination) = match protocol {
        Some("TCP4") => (
            address::<Ipv4Addr>(source)?.into(),
            address::<Ipv4Addr>(destination)?.into(),
        ),
        _ => (
            address::<Ipv6Addr>(source)?.into(),
            address::<Ipv6Addr>(destination)?.into(),
        ),
    };
    Ok(Header::For(Addresses {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    }))
}

fn address<A: FromStr>(word: Option<&str>) -> Result<A, Malformed> {
    let address = word.and_then(|word| word.parse().ok());
    address.ok_or(wrong("an address is none of the protocol"))
}

/// Digits alone, without a zero that could be left out.
fn port(word: Option<&str>) -> Result<u16, Malformed> {
    let is_plain = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_digit()) && (*word == "0" || !word.starts_with('0'))
    };
    let number = word.filter(is_plain).and_then(|word| word.parse().ok());
    number.ok_or(wrong("a port is no number from 0 to 65535"))
}

/// Writes a header.
pub fn write(header: Header, out: &mut Vec<u8>) {
    let line = match header {
        Header::For(Addresses {
            source: SocketAddr::V4(source),
            destination: SocketAddr::V4(destination),
        }) => line(
            "TCP4",
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port(),
        ),
        Header::For(Addresses {
            source: SocketAddr::V6(source),
            destination: SocketAddr::V6(destination),
        }) => line(
            "TCP6",
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port(),
        ),
        // There is no way to tell of two families.
        Header::For(_) | Header::Own => "PROXY UNKNOWN\r\n".to_owned(),
    };
    out.extend_from_slice(line.as_bytes());
}

fn line<A: Display>(
    protocol: &str,
    source: A,
    destination: A,
    source_port: u16,
    destination_port: u16,
) -> String {
    format!("PROXY {protocol} {source} {destination} {source_port} {destination_port}\r\n")
}

fn wrong(why: &'static str) -> Malformed {
    Malformed::Version1(why)
}
