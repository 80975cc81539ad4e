//! Version 1: a line of text (`proxy-protocol.txt`, section 2.1).

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Addresses, Header, MalformedHeader, ParseResult};

/// Beginning of the line.
pub(super) const SIGNATURE: &[u8] = b"PROXY ";
/// Longest line, with its line end.
const LINE_BYTES_MAX: usize = 107;
const END: &[u8] = b"\r\n";

/// Reads a header of version 1.
pub(super) fn read(bytes: &[u8]) -> Result<ParseResult, MalformedHeader> {
    let window = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    let Some(feed) = window.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_BYTES_MAX {
            Ok(ParseResult::Incomplete)
        } else {
            Err(malformed(
                "expected the end of the line within 107 bytes, found none",
            ))
        };
    };
    let line = window.get(..=feed).and_then(|line| line.strip_suffix(END));
    let line = line.ok_or(malformed(
        "expected a line that ends with CR LF, found another end",
    ))?;
    let line =
        str::from_utf8(line).map_err(|_| malformed("expected a line of UTF-8 text, found other bytes"))?;
    Ok(ParseResult::Complete {
        header: parse(line)?,
        bytes: feed + 1,
    })
}

fn parse(line: &str) -> Result<Header, MalformedHeader> {
    let mut fields = line.split(' ').skip(1);
    let protocol = fields.next();
    match protocol {
        // The rest of the line is to be ignored.
        Some("UNKNOWN") => return Ok(Header::Own),
        Some("TCP4" | "TCP6") => {}
        _ => {
            return Err(malformed(
                "expected TCP4, TCP6 or UNKNOWN, found another protocol",
            ));
        }
    }
    let (source, destination) = (fields.next(), fields.next());
    let (source_port, destination_port) = (port(fields.next())?, port(fields.next())?);
    if fields.next().is_some() {
        return Err(malformed(
            "expected the end of the line after the ports, found further bytes",
        ));
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

fn address<A: FromStr>(field: Option<&str>) -> Result<A, MalformedHeader> {
    let address = field.and_then(|field| field.parse().ok());
    address.ok_or(malformed(
        "expected an address of the protocol, found another value",
    ))
}

/// Parses a port: digits without a leading zero.
fn port(field: Option<&str>) -> Result<u16, MalformedHeader> {
    let is_plain = |field: &&str| {
        field.bytes().all(|byte| byte.is_ascii_digit()) && (*field == "0" || !field.starts_with('0'))
    };
    let number = field.filter(is_plain).and_then(|field| field.parse().ok());
    number.ok_or(malformed("expected a port from 0 to 65535, found another value"))
}

/// Appends a header.
pub fn write(header: Header, out: &mut Vec<u8>) {
    let line = match header {
        Header::For(Addresses {
            source: SocketAddr::V4(source),
            destination: SocketAddr::V4(destination),
        }) => header_line(
            "TCP4",
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port(),
        ),
        Header::For(Addresses {
            source: SocketAddr::V6(source),
            destination: SocketAddr::V6(destination),
        }) => header_line(
            "TCP6",
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port(),
        ),
        // A line cannot hold addresses of two families.
        Header::For(_) | Header::Own => "PROXY UNKNOWN\r\n".to_owned(),
    };
    out.extend_from_slice(line.as_bytes());
}

fn header_line<A: Display>(
    protocol: &str,
    source: A,
    destination: A,
    source_port: u16,
    destination_port: u16,
) -> String {
    format!("PROXY {protocol} {source} {destination} {source_port} {destination_port}\r\n")
}

fn malformed(reason: &'static str) -> MalformedHeader {
    MalformedHeader::Version1(reason)
}
