use super::*;

#[test]
fn remote_endpoints_have_addresses_of_upstream() {
    for (address, expected) in [
        ("10.244.2.7", "02-11-0a-f4-02-07"),
        ("255.255.255.255", "02-11-ff-ff-ff-ff"),
        ("fd00:244::1234:5678", "02-11-78-56-34-12"),
    ] {
        let mac = MacAddress::of_remote_endpoint(address.parse().unwrap());
        assert_eq!(mac.to_string(), expected, "{address}");
    }
}

#[test]
fn both_separators_are_read() {
    let expected = Ok(MacAddress([0, 0x15, 0x5d, 0xab, 0, 1]));
    assert_eq!("00-15-5D-AB-00-01".parse::<MacAddress>(), expected);
    assert_eq!("00:15:5d:ab:00:01".parse::<MacAddress>(), expected);
}

#[test]
fn rejects_other_texts() {
    for text in [
        "",
        "00-15-5d-ab-00",
        "00-15-5d-ab-00-01-02",
        "0-15-5d-ab-00-01",
        "+1-15-5d-ab-00-01",
    ] {
        assert!(text.parse::<MacAddress>().is_err(), "{text}");
    }
}
