use proptest::prelude::*;

use super::*;

#[test]
fn quantity_suffixes_are_parsed() {
    let thousandths = |text: &str| Quantity::parse(text).map(Quantity::thousandths);
    for (text, expected) in [
        ("1", 1000),
        ("500m", 500),
        ("1.5", 1500),
        (".5", 500),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("1.5Mi", 1_572_864_000),
        ("1e3", 1_000_000),
        ("1500e-3", 1500),
        ("100u", 1),
    ] {
        assert_eq!(thousandths(text), Some(expected), "{text}");
    }
    assert_eq!(
        Quantity::parse("1E").map(Quantity::units),
        Some(1_000_000_000_000_000_000)
    );
    for wrong in [
        "",
        "m",
        "-1",
        "1 Mi",
        "1.2.3",
        "x",
        "1Zi",
        "1e99",
        "9999999999999999999",
    ] {
        assert_eq!(Quantity::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn quotient_of_quantities_is_rounded_up() {
    let quantity = |text| Quantity::parse(text).unwrap();
    assert_eq!(quantity("1500m").divided_by(quantity("1")), Some(2));
    assert_eq!(quantity("1500m").divided_by(quantity("1m")), Some(1500));
    assert_eq!(quantity("1Gi").divided_by(quantity("1Mi")), Some(1024));
    assert_eq!(quantity("1Gi").divided_by(quantity("0")), None);
}

proptest! {
    #[test]
    fn parses_any_text_without_panic(text in "[0-9.eEKMGimku+-]{0,30}") {
        prop_assert!(Quantity::parse(&text).is_none_or(|quantity| quantity.units() <= quantity.thousandths().max(1)));
    }
}
