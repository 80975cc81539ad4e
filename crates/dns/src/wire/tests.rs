use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::from_text(text).expect("a name")
}

/// A query for `name` without an OPT record.
fn query(text: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0; 512];
    let length = encode_query(&mut message, 7, &name(text), kind, 1_232).expect("it fits");
    message.truncate(length);
    message
}

#[test]
fn names_are_read_from_text() {
    assert_eq!(name("a.bc.").as_wire(), b"\x01a\x02bc\0");
    assert_eq!(name("A.bc").to_lower(), name("a.bc"));
    assert_eq!(name(".").as_wire(), b"\0");
    assert_eq!(name("a.bc").to_string(), "a.bc.");
    assert_eq!(Name::from_text("a..b"), Err(NameError::LabelEmpty));
    assert_eq!(Name::from_text(&"x".repeat(64)), Err(NameError::LabelTooLong));
    let longest = ["x".repeat(63), "y".repeat(63), "z".repeat(63), "w".repeat(61)].join(".");
    assert_eq!(name(&longest).as_wire().len(), 255);
    assert_eq!(Name::from_text(&format!("{longest}w")), Err(NameError::TooLong));
}

#[test]
fn zones_begin_at_labels() {
    let zone = name("cluster.local");
    assert_eq!(name("a.cluster.local").suffix_offset(&zone), Some(2));
    assert_eq!(zone.suffix_offset(&zone), Some(0));
    assert_eq!(name("xcluster.local").suffix_offset(&zone), None);
    assert_eq!(name("local").suffix_offset(&zone), None);
    assert_eq!(name("a.b").suffix_offset(&Name::ROOT), Some(4));
    // A label whose last octets look like the zone is still one label.
    let mut disguised = Name::ROOT;
    disguised.push_label(b"x\x07cluster\x05local").expect("a label");
    assert_eq!(disguised.suffix_offset(&zone), None);
}

#[test]
fn pointers_are_followed_backwards_only() {
    let message = b"\x01a\x00\x01b\xC0\x00\xC0\x08\xC0\x0C\x40";
    assert_eq!(Name::read(message, 3).expect("b.a").0, name("b.a"));
    assert_eq!(Name::read(message, 3).expect("b.a").1, 7);
    for (at, what) in [(7, "itself"), (9, "forward"), (11, "no length"), (12, "the end")] {
        assert_eq!(Name::read(message, at), Err(NameError::Malformed), "{what}");
    }
}

#[test]
fn a_query_is_read() {
    let read = parse_query(&query("My-Service.ns", kind::AAAA)).expect("a query");
    assert_eq!((read.id, read.kind, read.class), (7, kind::AAAA, CLASS_IN));
    assert_eq!(read.name.as_wire(), b"\x0aMy-Service\x02ns\0");
    assert_eq!(
        read.edns,
        Some(Edns {
            udp_octets: 1_232,
            version: 0,
            dnssec_ok: false
        })
    );
    assert_eq!((read.udp_limit(4_096), read.udp_limit(1_000)), (1_232, 1_000));
}

#[test]
fn what_is_no_query_is_rejected() {
    let good = query("a.b", kind::A);
    let changed = |at: usize, octet: u8| {
        let mut message = good.clone();
        message[at] = octet;
        parse_query(&message).err()
    };
    let with = |flags, code| Some(Reject::With { id: 7, flags, code });
    assert_eq!(
        parse_query(&good[..11]).err(),
        Some(Reject::Silently),
        "no whole header"
    );
    assert_eq!(changed(2, 0x81), Some(Reject::Silently), "an answer");
    assert_eq!(
        changed(2, 0x21),
        with(0x2100, ResponseCode::NotImplemented),
        "NOTIFY"
    );
    for (at, octet, what) in [
        (5, 0, "no question"),
        (5, 2, "two questions"),
        (11, 9, "records that are not there"),
    ] {
        assert_eq!(
            changed(at, octet),
            with(0x0100, ResponseCode::FormatError),
            "{what}"
        );
    }
    let two_opt = [&good[..], &good[good.len() - 11..]].concat();
    assert!(
        parse_query(&{
            let mut m = two_opt;
            m[11] = 2;
            m
        })
        .is_err(),
        "two OPT records"
    );

    let mut buffer = [0xFF; 512];
    assert_eq!(reject(Reject::Silently, &mut buffer), 0);
    let length = reject(
        Reject::With {
            id: 7,
            flags: 0x2100,
            code: ResponseCode::NotImplemented,
        },
        &mut buffer,
    );
    assert_eq!(&buffer[..length], &[0, 7, 0xA1, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_record_that_does_not_fit_leaves_no_trace() {
    let query = parse_query(&query("a.b", kind::A)).expect("a query");
    let mut buffer = [0; 512];
    // Header and question take 21 octets, OPT 11, so that two records of 16 fit.
    let mut reply = Reply::new(&query, &mut buffer, 21 + 11 + 2 * 16 + 15);
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let mut add = || reply.address(Section::Answer, NameRef::QUESTION, 5, address);
    assert_eq!([add(), add(), add()], [Ok(()), Ok(()), Err(Full)]);
    reply.set_truncated();
    let length = reply.finish(ResponseCode::NoError);
    assert_eq!(length, 21 + 11 + 2 * 16);
    assert_eq!(buffer[..12], [0, 7, 0x83, 0, 0, 1, 0, 2, 0, 0, 0, 1]);
}

#[test]
fn an_answer_must_be_to_the_question() {
    let query = parse_query(&query("a.b", kind::A)).expect("a query");
    let mut buffer = [0; 512];
    let mut reply = Reply::new(&query, &mut buffer, 512);
    let alias = reply.target(
        Section::Answer,
        NameRef::QUESTION,
        kind::CNAME,
        9,
        NameRef::Whole(b"\x01c\0"),
    );
    let owner = NameRef::At(alias.expect("it fits"));
    reply
        .address(Section::Answer, owner, 8, [10, 0, 0, 1].into())
        .expect("it fits");
    let length = reply.finish(ResponseCode::NoError);
    let message = &buffer[..length];

    let answer = read_answer(message, 7, &name("A.B"), kind::A).expect("the answer");
    let records: Vec<Record> = answer.records().collect();
    let expected = [
        Record {
            owner: name("a.b"),
            ttl_seconds: 9,
            value: RecordValue::Cname(Box::new(name("c"))),
        },
        Record {
            owner: name("c"),
            ttl_seconds: 8,
            value: RecordValue::A([10, 0, 0, 1].into()),
        },
    ];
    assert_eq!(records, expected);
    assert!(
        read_answer(message, 8, &name("a.b"), kind::A).is_none(),
        "another identifier"
    );
    assert!(
        read_answer(message, 7, &name("a.c"), kind::A).is_none(),
        "another name"
    );
    assert!(
        read_answer(message, 7, &name("a.b"), kind::AAAA).is_none(),
        "another type"
    );
}

proptest! {
    #[test]
    fn no_bytes_are_too_bad_to_read(message in proptest::collection::vec(any::<u8>(), 0..600), id: u16) {
        let read = parse_query(&message);
        if let Some(answer) = read_answer(&message, id, &name("a.b"), kind::A) {
            prop_assert!(answer.records().count() <= usize::from(u16::MAX));
        }
        for at in 0..message.len() {
            if let Ok((name, end)) = Name::read(&message, at) {
                prop_assert!(name.as_wire().len() <= 255 && end <= message.len() && end > at);
                prop_assert_eq!(Name::read(name.as_wire(), 0), Ok((name, name.as_wire().len())));
            }
        }
        if let Err(Reject::With { .. }) = read {
            prop_assert!(message.len() >= HEADER_OCTETS);
        }
    }

    #[test]
    fn a_damaged_query_is_read_or_rejected(at in 0usize..60, octet: u8, keep in 0usize..60) {
        let mut message = query("a-service.a-namespace.svc.cluster.local", kind::SRV);
        if let Some(place) = message.get_mut(at) {
            *place = octet;
        }
        message.truncate(keep);
        if let Ok(read) = parse_query(&message) {
            let mut buffer = [0; 512];
            let length = Reply::new(&read, &mut buffer, 512).finish(ResponseCode::NoError);
            prop_assert!((HEADER_OCTETS..=512).contains(&length));
        }
    }
}
