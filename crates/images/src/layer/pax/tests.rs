use super::*;

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + rest.to_string().len();
    if length.to_string().len() > rest.to_string().len() {
        length += 1;
    }
    let mut record = format!("{length} {key}=").into_bytes();
    record.extend_from_slice(value);
    record.push(b'\n');
    assert_eq!(record.len(), length);
    record
}

fn parse(records: &[u8]) -> Result<ExtendedHeader, EntryError> {
    let mut header = ExtendedHeader::default();
    header.extend(records)?;
    Ok(header)
}

#[test]
fn value_with_line_feeds_is_kept() {
    let mut records = record("SCHILY.xattr.security.capability", b"a\n12 b=c\n\0");
    records.extend(record("path", b"after"));
    let header = parse(&records).expect("a header");
    assert_eq!(
        header.attributes,
        [(b"security.capability".to_vec(), b"a\n12 b=c\n\0".to_vec())]
    );
    assert_eq!(header.path.as_deref(), Some(&b"after"[..]));
}

#[test]
fn time_before_1970_and_with_fraction_is_parsed() {
    for (text, seconds, nanoseconds) in [
        ("1", 1, 0),
        ("1.5", 1, 500_000_000),
        ("1.0000000019", 1, 1),
        ("-1.25", -2, 750_000_000),
        ("-0.5", -1, 500_000_000),
    ] {
        assert_eq!(
            time(text.as_bytes()),
            Some(ModificationTime { seconds, nanoseconds }),
            "{text}"
        );
    }
    for text in ["", "x", "1.x", "1.-5", "99999999999999999999"] {
        assert_eq!(time(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn rejects_wrong_lengths_numbers_and_sparse_files() {
    for records in [
        &b"5 a=b"[..],
        b"100 a=b\n",
        b"2 a=b\n",
        b"x a=b\n",
        b"6 a b\n",
        b"0 \n",
        b"99999999999999999999 a",
    ] {
        assert_eq!(parse(records), Err(EntryError::ExtendedHeader), "{records:?}");
    }
    assert_eq!(parse(&record("size", b"-1")), Err(EntryError::Number("size")));
    assert_eq!(parse(&record("GNU.sparse.major", b"1")), Err(EntryError::Sparse));
    let long = vec![0; ATTRIBUTE_BYTES_MAX + 1];
    assert_eq!(
        parse(&record("SCHILY.xattr.user.a", &long)),
        Err(EntryError::Attributes)
    );
}
