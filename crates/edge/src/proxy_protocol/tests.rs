use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::peer::TlsPeer;

fn complete(bytes: &[u8]) -> Header {
    match read(bytes) {
        Ok(ParseResult::Complete { header, bytes: taken }) => {
            assert!(taken <= bytes.len());
            header
        }
        other => panic!("{other:?}"),
    }
}

fn addresses(source: &str, destination: &str) -> Header {
    Header::For(Addresses {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    })
}

#[test]
fn reads_lines_of_version_1() {
    let header = complete(b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\nGET / HTTP/1.1\r\n");
    assert_eq!(header, addresses("192.0.2.7:56324", "198.51.100.1:443"));
    let header = complete(b"PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n");
    assert_eq!(header, addresses("[2001:db8::7]:1", "[2001:db8::1]:65535"));
    assert_eq!(complete(b"PROXY UNKNOWN whatever comes here\r\n"), Header::Own);
    assert_eq!(complete(b"PROXY UNKNOWN\r\n"), Header::Own);
}

#[test]
fn rejects_lines_with_deviations() {
    let wrong: [&[u8]; 12] = [
        b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\n",
        b"PROXY TCP4 192.0.2.7  198.51.100.1 56324 443\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 056324 443\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 +5 443\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443 \r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::1 56324 443\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.1 56324 443\r\n",
        b"PROXY TCP4 192.0.2.07 198.51.100.1 56324 443\r\n",
        b"PROXY TCP4\r\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.1 56324 443\r\n",
        b"PROXY  TCP4 192.0.2.7 198.51.100.1 56324 443\r\n",
    ];
    for line in wrong {
        let parsed = read(line);
        assert!(
            matches!(parsed, Err(MalformedHeader::Version1(_))),
            "{parsed:?} for {}",
            line.escape_ascii()
        );
    }
    let mut long = b"PROXY UNKNOWN ".to_vec();
    long.resize(200, b'x');
    assert!(read(&long).is_err());
    assert_eq!(read(b"GET / HTTP/1.1\r\n"), Err(MalformedHeader::NoSignature));
    assert_eq!(read(b"\x16\x03\x01"), Err(MalformedHeader::NoSignature));
}

#[test]
fn local_block_has_no_client() {
    let mut block = version2::SIGNATURE.to_vec();
    block.extend_from_slice(&[0x20, 0x00, 0, 3, 1, 2, 3]);
    assert_eq!(
        read(&block),
        Ok(ParseResult::Complete {
            header: Header::Own,
            bytes: 19
        })
    );
}

#[test]
fn rejects_faulty_blocks() {
    let block = |rest: &[u8]| [version2::SIGNATURE, rest].concat();
    let wrong: [(&[u8], &str); 7] = [
        (&[0x11, 0x11, 0, 12], "expected version 2, found another one"),
        (
            &[0x22, 0x11, 0, 12],
            "expected the command LOCAL or PROXY, found another one",
        ),
        (
            &[0x21, 0x11, 0xff, 0xff],
            "expected a header of at most 4096 bytes, found a longer one",
        ),
        (
            &[0x21, 0x11, 0, 2, 1, 2],
            "expected complete addresses, found fewer bytes",
        ),
        (
            &[0x21, 0x12, 0, 0],
            "expected a family of connections, found another one",
        ),
        (
            &[0x21, 0x11, 0, 14, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2, 4, 0],
            "expected a complete extension, found fewer bytes",
        ),
        (
            &[
                0x21, 0x11, 0, 19, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2, 3, 0, 4, 9, 9, 9, 9,
            ],
            "expected the checksum of the header, found another one",
        ),
    ];
    for (rest, why) in wrong {
        assert_eq!(read(&block(rest)), Err(MalformedHeader::Version2(why)));
    }
}

#[test]
fn accepts_a_correct_checksum() {
    // CRC-32C of the 35 bytes with four zeros at the end, in the place of the checksum.
    let mut block = version2::SIGNATURE.to_vec();
    block.extend_from_slice(&[0x21, 0x11, 0, 19, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2, 3, 0, 4]);
    let mut crc = u32::MAX;
    for byte in block.iter().copied().chain([0; 4]) {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    block.extend_from_slice(&(!crc).to_be_bytes());
    assert_eq!(complete(&block), addresses("1.2.3.4:1", "5.6.7.8:2"));
}

#[test]
fn version_2_describes_tls() {
    let tls = TlsPeer {
        server_name: Some("shop.example".to_owned()),
        alpn: Some(b"h2".to_vec()),
        version: "TLSv1.3",
        cipher_suite: "TLS13_AES_128_GCM_SHA256".to_owned(),
    };
    let mut block = Vec::new();
    write_version2(addresses("1.2.3.4:1", "5.6.7.8:2"), Some(&tls), &mut block);
    let extensions = &block[28..];
    assert!(extensions.starts_with(b"\x01\x00\x02h2\x02\x00\x0cshop.example\x20"));
    let ssl = &extensions[5 + 15..];
    assert!(ssl[3..].starts_with(b"\x01\x00\x00\x00\x01\x21\x00\x07TLSv1.3\x23\x00\x18TLS13_"));
    assert_eq!(complete(&block), addresses("1.2.3.4:1", "5.6.7.8:2"));
}

fn any_header() -> impl Strategy<Value = Header> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let both = (prop_oneof![v4, v6], any::<(u16, u16)>()).prop_map(|((source, destination), ports)| {
        Header::For(Addresses {
            source: SocketAddr::new(source, ports.0),
            destination: SocketAddr::new(destination, ports.1),
        })
    });
    prop_oneof![both, Just(Header::Own)]
}

proptest! {
    #[test]
    fn written_headers_are_readable(header in any_header(), is_version2: bool, after in any::<Vec<u8>>()) {
        let mut bytes = Vec::new();
        if is_version2 {
            write_version2(header, None, &mut bytes);
        } else {
            write_version1(header, &mut bytes);
        }
        let length = bytes.len();
        for end in 0..length {
            prop_assert_eq!(read(&bytes[..end]), Ok(ParseResult::Incomplete));
        }
        bytes.extend_from_slice(&after);
        prop_assert_eq!(read(&bytes), Ok(ParseResult::Complete { header, bytes: length }));
    }

    #[test]
    fn incomplete_headers_stay_below_the_bound(mut bytes in prop::collection::vec(any::<u8>(), 0..64), which in 0..3) {
        let signature: &[u8] = match which { 0 => version1::SIGNATURE, 1 => version2::SIGNATURE, _ => b"" };
        bytes.splice(0..0, signature.iter().copied());
        if let Ok(ParseResult::Complete { bytes: taken, .. }) = read(&bytes) {
            prop_assert!(taken <= bytes.len());
        }
        bytes.resize(HEADER_BYTES_MAX, b'x');
        prop_assert_ne!(read(&bytes), Ok(ParseResult::Incomplete));
    }
}
