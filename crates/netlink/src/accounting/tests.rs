use super::*;

#[test]
fn creates_reads_and_deletes_counters() {
    testbed::in_namespace(|| {
        let mut accounting = AccountingConnection::open().unwrap();
        if let Err(error) = accounting.ensure("first") {
            testbed::skip_inside(&format!("no counters by name in this kernel: {error}"));
        }
        accounting.ensure("first").unwrap();
        assert_eq!(accounting.packets("first").unwrap(), Some(0));
        assert_eq!(accounting.packets("second").unwrap(), None);
        accounting.remove("first").unwrap();
        assert_eq!(accounting.packets("first").unwrap(), None);
        accounting.remove("first").unwrap();
    });
}

#[test]
fn response_without_count_is_none() {
    let mut writer = Writer::default();
    writer.begin(SUBSYSTEM << 8, 0, 1).fixed(&[0; GENERIC_BYTES]);
    writer.text(ATTR_NAME, "first").attribute(ATTR_PACKETS, &[1, 2]);
    let bytes = writer.finish().to_vec();
    let read: Vec<_> = crate::message::messages(&bytes)
        .map(|message| read_packets(&message))
        .collect();
    assert_eq!(read, [None]);
}
