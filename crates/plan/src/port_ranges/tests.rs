use super::*;

fn shown(text: &str) -> Option<Vec<String>> {
    let ranges = PortRanges::parse(text)?;
    let shown = ranges
        .iter()
        .map(|(protocol, range)| format!("{range}/{}", protocol.as_str()));
    Some(shown.collect())
}

#[test]
fn reads_ranges_with_protocols() {
    assert_eq!(
        shown("5060-5160/UDP, 10000-20000/UDP,7000,9000/SCTP"),
        Some(vec![
            "7000/TCP".to_owned(),
            "5060-5160/UDP".to_owned(),
            "10000-20000/UDP".to_owned(),
            "9000/SCTP".to_owned(),
        ])
    );
}

#[test]
fn all_is_every_port_of_three_protocols() {
    let whole: Vec<String> = ["TCP", "UDP", "SCTP"]
        .map(|name| format!("1-65535/{name}"))
        .to_vec();
    assert_eq!(shown("all"), Some(whole.clone()));
    assert_eq!(shown("all,5060/UDP"), Some(whole));
    assert_eq!(shown("all/UDP"), Some(vec!["1-65535/UDP".to_owned()]));
}

#[test]
fn joins_ranges_that_overlap_or_touch() {
    assert_eq!(
        shown("5-9,1-5,10-12,14"),
        Some(vec!["1-12/TCP".to_owned(), "14/TCP".to_owned()])
    );
    assert_eq!(
        shown("1-10/TCP,5-20/UDP"),
        Some(vec!["1-10/TCP".to_owned(), "5-20/UDP".to_owned()])
    );
}

#[test]
fn rejects_invalid_values() {
    let invalid = [
        "",
        ",",
        "1-2,",
        "0-5",
        "0",
        "9-5",
        "1-65536",
        "-5",
        "5-",
        "1-2-3",
        "+1-5",
        "1 - 5",
        "1-5/udp",
        "1-5/ICMP",
        "1-5/",
        "ALL",
        "all-5",
        "5060:5160/UDP",
        "/UDP",
    ];
    for text in invalid {
        assert_eq!(PortRanges::parse(text), None, "{text:?}");
    }
}

#[test]
fn rejects_more_ranges_than_the_maximum() {
    let list = |count: usize| -> String {
        let ranges: Vec<String> = (0..count).map(|index| (index * 2 + 1).to_string()).collect();
        ranges.join(",")
    };
    let most = PortRanges::parse(&list(PORT_RANGES_MAX)).map(|ranges| ranges.iter().count());
    assert_eq!(most, Some(PORT_RANGES_MAX));
    assert_eq!(PortRanges::parse(&list(PORT_RANGES_MAX + 1)), None);
}
