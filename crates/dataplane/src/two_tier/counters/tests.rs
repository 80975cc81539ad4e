use super::*;

const HEADER: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
";

#[test]
fn links_count_packets_to_current_and_previous_nodes() {
    let statistics = format!(
        "{HEADER}    lo:     100      1    0    0    0     0          0         0      100      1    0    0    0     0       0          0
portolan.hop1:    900      9    0    0    0     0          0         0     1100     11    0    0    0     0       0          0
portolan.hop2:      0      0    0    0    0     0          0         0      300      3    0    0    0     0       0          0
portolan.hop4:      0      0    0    0    0     0          0         0      200      2    0    0    0     0       0          0
"
    );
    let expected = ForwardedPackets {
        to_current: 11,
        to_previous: 5,
    };
    assert_eq!(parse(&statistics), Some(expected));
}

#[test]
fn packets_are_not_counted_without_all_links() {
    assert_eq!(parse(HEADER), None);
    assert_eq!(parse(&format!("{HEADER}portolan.hop1: 1 2\n")), None);
}
