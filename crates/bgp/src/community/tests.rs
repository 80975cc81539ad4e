//! Text forms of communities.

use super::{AnyCommunity, Community, LargeCommunity};

#[test]
fn parses_communities_of_both_kinds() {
    let standard = |number| Ok(AnyCommunity::Standard(Community(number)));
    assert_eq!("64512:100".parse(), standard(0xfc00_0064));
    assert_eq!("0:0".parse(), standard(0));
    assert_eq!("no-export".parse(), standard(0xffff_ff01));
    assert_eq!(
        "graceful-shutdown".parse(),
        Ok(AnyCommunity::Standard(Community::GRACEFUL_SHUTDOWN))
    );
    assert_eq!(
        "large:4200000000:1:2".parse(),
        Ok(AnyCommunity::Large(LargeCommunity([4_200_000_000, 1, 2])))
    );
}

#[test]
fn rejects_other_texts() {
    for text in [
        "",
        "1",
        "1:2:3",
        "65536:1",
        "1:-1",
        "+1:2",
        "large:1:2",
        "large:1:2:4294967296",
        "a:b",
        "1:",
        "::",
    ] {
        assert!(text.parse::<AnyCommunity>().is_err(), "{text}");
    }
}

#[test]
fn displays_what_it_parses() {
    assert_eq!(Community(0xfc00_0064).to_string(), "64512:100");
    assert_eq!(LargeCommunity([1, 2, 3]).to_string(), "1:2:3");
}
