use super::super::rules::frontend_bytes;
use super::super::state::FrontendKey;
use super::*;

const UDP: u8 = libc::IPPROTO_UDP as u8;

#[test]
fn keys_of_tcp_frontends_are_read() {
    for (address, protocol, expected) in [
        ("203.0.113.5", tcp::PROTOCOL, Some("203.0.113.5:443")),
        ("2001:db8::5", tcp::PROTOCOL, Some("[2001:db8::5]:443")),
        ("203.0.113.5", UDP, None),
    ] {
        let key = frontend_bytes(&FrontendKey {
            address: address.parse().unwrap(),
            protocol,
            port: 443,
        });
        let expected = expected.map(|text| text.parse::<SocketAddr>().unwrap());
        assert_eq!(tcp_frontend(&key), expected, "{address} {protocol}");
    }
}

#[test]
fn keys_of_other_lengths_are_skipped() {
    for bytes in [0, 7, 8, 11, 13, 25] {
        assert_eq!(tcp_frontend(&vec![0; bytes]), None, "{bytes}");
    }
}
