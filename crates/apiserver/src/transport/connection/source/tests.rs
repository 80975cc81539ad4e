use super::*;

fn source(text: &str) -> Source {
    let address: IpAddr = text.parse().unwrap();
    Source::from(address)
}

#[test]
fn ipv6_sources_are_prefixes() {
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
}
