use super::*;

const PORT: u16 = 3785;

fn addresses() -> [IpAddr; 2] {
    ["10.9.0.1", "fd00:9::1"].map(|text| text.parse().expect("an address"))
}

#[test]
fn payload_survives_a_packet() {
    for address in addresses() {
        let packet = packet(address, 50_000, PORT, b"token");
        assert_eq!(payload(&packet), Some(b"token".as_slice()));
        for length in 0..packet.len() {
            assert_eq!(payload(&packet[..length]), None, "{address}, {length}");
        }
    }
}

#[test]
fn rejects_a_length_below_the_header() {
    for address in addresses() {
        let mut packet = packet(address, 50_000, PORT, b"token");
        let length = packet.len() - UDP_BYTES - b"token".len() + 5;
        packet[length] = 7;
        assert_eq!(payload(&packet), None, "{address}");
    }
}

/// The expected packet was captured: tcpdump reports that its checksum is correct.
#[test]
fn ipv6_packet_has_a_checksum() {
    let [_, address] = addresses();
    let packet = packet(address, 50_000, PORT, b"token");
    let IpAddr::V6(own) = address else {
        panic!("expected an IPv6 address, found {address}");
    };
    assert_eq!(packet[..8], [0x6c, 0, 0, 0, 0, 13, 17, 255]);
    assert_eq!(packet[8..24], own.octets());
    assert_eq!(packet[24..40], own.octets());
    assert_eq!(packet[40..48], [0xc3, 0x50, 0x0e, 0xc9, 0, 13, 0xe5, 0xcf]);
}
