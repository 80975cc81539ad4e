//! Version 2: a binary block (`proxy-protocol.txt`, section 2.2) with extensions, some of which describe TLS.

use std::net::{IpAddr, SocketAddr};

use super::{Addresses, HEADER_BYTES_MAX, Header, MalformedHeader, ParseResult};
use crate::peer::TlsPeer;

/// Beginning of the block.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length of the rest.
const FIXED_BYTES: usize = 16;

const VERSION: u8 = 0x20;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;

const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;
const UNIX_DATAGRAM: u8 = 0x32;

/// Bytes of the addresses of each family.
const TCP4_BYTES: usize = 12;
const TCP6_BYTES: usize = 36;
const UNIX_BYTES: usize = 216;

const TYPE_ALPN: u8 = 0x01;
const TYPE_AUTHORITY: u8 = 0x02;
const TYPE_CRC32C: u8 = 0x03;
const TYPE_SSL: u8 = 0x20;
const SUBTYPE_SSL_VERSION: u8 = 0x21;
const SUBTYPE_SSL_CIPHER: u8 = 0x23;
/// The client connected over TLS.
const CLIENT_SSL: u8 = 0x01;
/// No verified certificate was presented.
const NOT_VERIFIED: u32 = 1;

/// Reads a header of version 2.
pub(super) fn read(bytes: &[u8]) -> Result<ParseResult, MalformedHeader> {
    let Some(fixed) = bytes.first_chunk::<FIXED_BYTES>() else {
        return Ok(ParseResult::Incomplete);
    };
    let [.., command, family, high, low] = *fixed;
    let end = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if end > HEADER_BYTES_MAX {
        return Err(malformed(
            "expected a header of at most 4096 bytes, found a longer one",
        ));
    }
    let is_local = match (command & 0xf0, command & 0x0f) {
        (VERSION, LOCAL) => true,
        (VERSION, PROXY) => false,
        (VERSION, _) => {
            return Err(malformed(
                "expected the command LOCAL or PROXY, found another one",
            ));
        }
        _ => return Err(malformed("expected version 2, found another one")),
    };
    let Some(block) = bytes.get(..end) else {
        return Ok(ParseResult::Incomplete);
    };
    let rest = block.get(FIXED_BYTES..).unwrap_or_default();
    let header = if is_local {
        // A receiver has to skip the rest.
        Header::Own
    } else {
        let (header, extensions) = addresses(family, rest)?;
        check_extensions(block, extensions)?;
        header
    };
    Ok(ParseResult::Complete { header, bytes: end })
}

/// Reads the addresses. Returns the bytes behind them.
fn addresses(family: u8, rest: &[u8]) -> Result<(Header, &[u8]), MalformedHeader> {
    const SHORT: MalformedHeader =
        MalformedHeader::Version2("expected complete addresses, found fewer bytes");
    match family {
        UNSPECIFIED => Ok((Header::Own, &[])),
        TCP4 => {
            let (addresses, extensions) = rest.split_first_chunk::<TCP4_BYTES>().ok_or(SHORT)?;
            let [a, b, c, d, e, f, g, h, ports @ ..] = *addresses;
            Ok((header([a, b, c, d], [e, f, g, h], ports), extensions))
        }
        TCP6 => {
            let (addresses, extensions) = rest.split_first_chunk::<TCP6_BYTES>().ok_or(SHORT)?;
            let (source, after) = addresses.split_first_chunk::<16>().ok_or(SHORT)?;
            let (destination, ports) = after.split_first_chunk::<16>().ok_or(SHORT)?;
            let ports = *ports.first_chunk::<4>().ok_or(SHORT)?;
            Ok((header(*source, *destination, ports), extensions))
        }
        UNIX_STREAM | UNIX_DATAGRAM => {
            let extensions = rest.get(UNIX_BYTES..).ok_or(SHORT)?;
            Ok((Header::Own, extensions))
        }
        _ => Err(malformed("expected a family of connections, found another one")),
    }
}

fn header<A: Into<IpAddr>>(source: A, destination: A, ports: [u8; 4]) -> Header {
    let [a, b, c, d] = ports;
    Header::For(Addresses {
        source: SocketAddr::new(source.into(), u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination.into(), u16::from_be_bytes([c, d])),
    })
}

/// Checks that the extensions are complete, and the checksum if there is one.
fn check_extensions(block: &[u8], mut extensions: &[u8]) -> Result<(), MalformedHeader> {
    while let [kind, after @ ..] = extensions {
        let cut = malformed("expected a complete extension, found fewer bytes");
        let (length, after) = after.split_first_chunk::<2>().ok_or(cut)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let value = after.get(..length).ok_or(cut)?;
        extensions = after.get(length..).unwrap_or_default();
        if *kind == TYPE_CRC32C {
            let at = block.len() - extensions.len() - length;
            if value != checksum_without(block, at..at + length).to_be_bytes() {
                return Err(malformed(
                    "expected the checksum of the header, found another one",
                ));
            }
        }
    }
    Ok(())
}

/// Returns the CRC-32C of the block, with zeros in the place of the checksum.
fn checksum_without(block: &[u8], checksum: std::ops::Range<usize>) -> u32 {
    let bytes = block.iter().enumerate();
    let crc = bytes.fold(u32::MAX, |crc, (index, byte)| {
        let byte = if checksum.contains(&index) { 0 } else { *byte };
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            1 => crc >> 1 ^ 0x82f6_3b78,
            _ => crc >> 1,
        })
    });
    !crc
}

/// Appends a header, with a description of the client's TLS if there is one.
pub fn write(header: Header, tls: Option<&TlsPeer>, out: &mut Vec<u8>) {
    let mut rest = Vec::new();
    let (command, family) = match header {
        Header::For(addresses) => (PROXY, write_addresses(addresses, &mut rest)),
        Header::Own => (LOCAL, UNSPECIFIED),
    };
    if let Some(tls) = tls.filter(|_| family != UNSPECIFIED) {
        write_tls(tls, &mut rest);
    }
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[VERSION | command, family]);
    push_with_length(&rest, out);
}

/// Appends addresses. Returns their family.
fn write_addresses(addresses: Addresses, out: &mut Vec<u8>) -> u8 {
    let Addresses { source, destination } = addresses;
    let family = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&destination.octets());
            TCP4
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&destination.octets());
            TCP6
        }
        _ => return UNSPECIFIED,
    };
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    family
}

fn write_tls(tls: &TlsPeer, out: &mut Vec<u8>) {
    if let Some(alpn) = &tls.alpn {
        extension(TYPE_ALPN, alpn, out);
    }
    if let Some(name) = &tls.server_name {
        extension(TYPE_AUTHORITY, name.as_bytes(), out);
    }
    let mut ssl = vec![CLIENT_SSL];
    ssl.extend_from_slice(&NOT_VERIFIED.to_be_bytes());
    extension(SUBTYPE_SSL_VERSION, tls.version.as_bytes(), &mut ssl);
    extension(SUBTYPE_SSL_CIPHER, tls.cipher_suite.as_bytes(), &mut ssl);
    extension(TYPE_SSL, &ssl, out);
}

fn extension(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    push_with_length(value, out);
}

/// Appends bytes behind their length. All values are far shorter than the length permits: names and protocols of TLS
/// have at most 255 bytes.
fn push_with_length(value: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.get(..length.into()).unwrap_or_default());
}

fn malformed(reason: &'static str) -> MalformedHeader {
    MalformedHeader::Version2(reason)
}
