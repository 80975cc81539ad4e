use super::*;

#[test]
fn touching_ranges_are_one_interval() {
    let net = |text: &str| -> IpNet { text.parse().expect("a range") };
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let ranges = [
        "192.0.2.2/32",
        "192.0.2.1/32",
        "10.244.0.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ];
    let expected = [
        (ip("10.244.0.0"), ip("10.244.0.255")),
        (ip("192.0.2.1"), ip("192.0.2.2")),
        (ip("224.0.0.0"), ip("255.255.255.255")),
    ];
    assert_eq!(intervals(ranges.map(net).to_vec()), expected);
    let expected = [
        (ip("fd00::"), ip("fd00::ffff:ffff:ffff:ffff")),
        (ip("fd00:0:0:2::1"), ip("fd00:0:0:2::1")),
    ];
    let ranges = ["fd00:0:0:2::1/128", "fd00::/64"];
    assert_eq!(intervals(ranges.map(net).to_vec()), expected);
}
