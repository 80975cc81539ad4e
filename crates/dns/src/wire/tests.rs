use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::from_text(text).expect("a name")
}

/// A query for a name.
fn query(text: &str, kind: u16) -> Vec<u8> {
    Question::about(name(text), kind).encode(7, Some(1_232))
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
    for (at, subject) in [(7, "itself"), (9, "forward"), (11, "no length"), (12, "the end")] {
        assert_eq!(Name::read(message, at), Err(NameError::Malformed), "{subject}");
    }
}

#[test]
fn query_is_parsed_with_edns() {
    let read = parse_query(&query("My-Service.ns", kind::AAAA)).expect("a query");
    assert_eq!((read.id, read.kind, read.class), (7, kind::AAAA, CLASS_IN));
    assert_eq!(read.name.as_wire(), b"\x0aMy-Service\x02ns\0");
    assert_eq!(
        read.edns,
        Some(Edns {
            udp_bytes: 1_232,
            version: 0,
            dnssec_ok: false
        })
    );
    assert_eq!((read.udp_limit(4_096), read.udp_limit(1_000)), (1_232, 1_000));
}

#[test]
fn rejects_malformed_options() {
    let with_option = |code: u16, length: u16, data: &[u8]| {
        let mut message = query("a.b", kind::A);
        let octets = u16::try_from(4 + data.len()).expect("a short option");
        let end = message.len();
        message[end - 2..].copy_from_slice(&octets.to_be_bytes());
        message.extend([code.to_be_bytes(), length.to_be_bytes()].concat());
        message.extend(data);
        parse_query(&message).is_ok()
    };
    assert!(with_option(10, 8, b"12345678"), "a cookie");
    assert!(with_option(10, 3, b"123"), "a short cookie, which is ignored");
    assert!(with_option(65_001, 2, b"xx"), "an unknown option");
    assert!(!with_option(65_001, 9, b"xx"), "longer than the record");
    assert!(with_option(8, 7, &[0, 1, 24, 0, 1, 2, 3]), "a subnet");
    assert!(!with_option(8, 9, &[0, 1, 33, 0, 1, 2, 3, 4, 5]), "a long prefix");
    assert!(!with_option(8, 7, &[0, 3, 24, 0, 1, 2, 3]), "an unknown family");
    assert!(!with_option(9, 1, &[0]), "a short EXPIRE");
    assert!(!with_option(11, 1, &[0]), "a short keepalive");
    assert!(!with_option(15, 1, &[0]), "an error without code");
}

#[test]
fn rejects_messages_that_are_not_queries() {
    let valid = query("a.b", kind::A);
    let changed = |at: usize, octet: u8| {
        let mut message = valid.clone();
        message[at] = octet;
        parse_query(&message).err()
    };
    let with = |flags, code| Some(Reject::WithResponse { id: 7, flags, code });
    assert_eq!(
        parse_query(&valid[..11]).err(),
        Some(Reject::WithoutResponse),
        "no whole header"
    );
    assert_eq!(changed(2, 0x81), Some(Reject::WithoutResponse), "an answer");
    assert_eq!(
        changed(2, 0x21),
        with(0x2100, ResponseCode::NotImplemented),
        "NOTIFY"
    );
    for (at, octet, subject) in [
        (5, 0, "no question"),
        (5, 2, "two questions"),
        (11, 9, "records that are not there"),
    ] {
        assert_eq!(
            changed(at, octet),
            with(0x0100, ResponseCode::FormatError),
            "{subject}"
        );
    }
    let two_opt = [&valid[..], &valid[valid.len() - 11..]].concat();
    assert!(
        parse_query(&{
            let mut message = two_opt;
            message[11] = 2;
            message
        })
        .is_err(),
        "two OPT records"
    );

    let mut buffer = [0xFF; 512];
    assert_eq!(reject(Reject::WithoutResponse, &mut buffer), 0);
    let length = reject(
        Reject::WithResponse {
            id: 7,
            flags: 0x2100,
            code: ResponseCode::NotImplemented,
        },
        &mut buffer,
    );
    assert_eq!(&buffer[..length], &[0, 7, 0xA1, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn oversized_record_leaves_the_reply_unchanged() {
    let query = parse_query(&query("a.b", kind::A)).expect("a query");
    let mut buffer = [0; 512];
    // Header and question take 21 bytes, OPT 11, so that two records of 16 fit.
    let mut reply = Reply::new(&query, &mut buffer, 21 + 11 + 2 * 16 + 15);
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let mut add = || reply.address(Section::Answer, NameRef::QUESTION, 5, address);
    assert_eq!([add(), add(), add()], [Ok(()), Ok(()), Err(ResponseFull)]);
    reply.set_truncated();
    let length = reply.finish(ResponseCode::NoError);
    assert_eq!(length, 21 + 11 + 2 * 16);
    assert_eq!(buffer[..12], [0, 7, 0x83, 0, 0, 1, 0, 2, 0, 0, 0, 1]);
}

#[test]
fn rejects_response_to_another_question() {
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
    let owner = NameRef::At(alias.expect("space for the record"));
    reply
        .address(Section::Answer, owner, 8, [10, 0, 0, 1].into())
        .expect("space for the record");
    let length = reply.finish(ResponseCode::NoError);
    let message = &buffer[..length];

    let records: Vec<Record> = Records::of(message).collect();
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
    let sent = Question::about(name("A.B"), kind::A);
    let relayed = ResolverResponse::read(message, 7, &sent).expect("the answer");
    assert_eq!(relayed.cache_policy, CachePolicy::Success { seconds: 8 });
    let foreign = |id, question: &Question| {
        ResolverResponse::read(message, id, question).err() == Some(ResolverResponseError::Mismatch)
    };
    assert!(foreign(8, &sent), "another identifier");
    assert!(foreign(7, &Question::about(name("a.c"), kind::A)), "another name");
    assert!(
        foreign(7, &Question::about(name("a.b"), kind::AAAA)),
        "another type"
    );
}

#[test]
fn cached_response_matches_the_query() {
    let sent = Question::about(name("a.example"), kind::A);
    let upstream = parse_query(&sent.encode(7, Some(1_232))).expect("a query");
    let mut buffer = [0; 512];
    let mut reply = Reply::new(&upstream, &mut buffer, 512);
    reply
        .address(Section::Answer, NameRef::QUESTION, 60, [192, 0, 2, 1].into())
        .expect("space for the record");
    let length = reply.finish(ResponseCode::NoError);
    let relayed = ResolverResponse::read(&buffer[..length], 7, &sent).expect("the answer");
    assert_eq!(relayed.cache_policy, CachePolicy::Success { seconds: 60 });
    assert_eq!(relayed.message().len(), length - 11, "OPT is the exchange's own");

    let mut client =
        parse_query(&Question::about(name("A.Example"), kind::A).encode(9, Some(4_096))).expect("a query");
    let mut out = [0; 512];
    let length = relayed.write(&client, &mut out, 512, |ttl| ttl - 10);
    let again = &out[..length];
    assert_eq!(read_u16(again, 0), Some(9));
    assert_eq!(
        Name::read(again, HEADER_BYTES).map(|(name, _)| name.to_string()),
        Ok("A.Example.".to_owned())
    );
    let record = Records::of(again).next().expect("a record");
    assert_eq!(
        (record.ttl_seconds, record.value),
        (50, RecordValue::A([192, 0, 2, 1].into()))
    );
    assert_eq!(read_u16(again, 10), Some(1), "the client's OPT");

    client.edns = None;
    let length = relayed.write(&client, &mut out, 20, |ttl| ttl);
    assert!(length > 20, "512 bytes are always there");
    let long = ResolverResponse::read(&many_addresses(), 7, &sent).expect("the answer");
    let length = long.write(&client, &mut out, 512, |ttl| ttl);
    assert_eq!(
        (length, read_u16(&out, 2).map(|flags| flags & flag::TRUNCATED)),
        (27, Some(flag::TRUNCATED))
    );
    assert_eq!(read_u16(&out, 6), Some(0), "the response has the question only");
}

/// An answer for `a.example` that does not fit into 512 bytes.
fn many_addresses() -> Vec<u8> {
    let query = parse_query(&Question::about(name("a.example"), kind::A).encode(7, None)).expect("a query");
    let mut buffer = vec![0; 4_096];
    let mut reply = Reply::new(&query, &mut buffer, 4_096);
    for last in 0..100 {
        reply
            .address(Section::Answer, NameRef::QUESTION, 60, [192, 0, 2, last].into())
            .expect("space for the record");
    }
    let length = reply.finish(ResponseCode::NoError);
    buffer.truncate(length);
    buffer
}

/// Returns the records without TTLs.
fn contents(message: &[u8]) -> Vec<(Name, RecordValue)> {
    Records::of(message)
        .map(|record| (record.owner, record.value))
        .collect()
}

/// An answer for `a.example`, MX and alias, whose owners and exchange are given in wire form.
fn pointing(owner: &[u8], kind: u16, content: &[u8], second_owner: &[u8]) -> Vec<u8> {
    let mut message = query("a.example", kind::A);
    message.truncate(message.len() - 11);
    message[2] |= 0x80;
    message[7] = 2;
    message[11] = 0;
    message.extend(owner);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1, 0, 12, 0, 12]);
    message.extend(u16::try_from(content.len()).expect("short").to_be_bytes());
    message.extend(content);
    message.extend(second_owner);
    message.extend([0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1]);
    message
}

/// Pointer to the name of the question. The question is at 12 to 27: the first record's TTL is at 33, its content at 39.
const QUESTION_POINTER: &[u8] = &[0xC0, 12];

/// Reads a message that [`pointing`] returns.
fn read_pointing(message: &[u8]) -> Result<(), ResolverResponseError> {
    let sent = Question::about(name("a.example"), kind::A);
    ResolverResponse::read(message, 7, &sent).map(|_| ())
}

#[test]
fn names_may_point_to_earlier_names() {
    let valid = [
        (kind::MX, &b"\0\x05\x02mx\xC0\x0E"[..], 41, "the exchange"),
        (
            kind::CNAME,
            b"\x01b\xC0\x0E",
            41,
            "the pointer at the end of the alias",
        ),
        (
            kind::NAPTR,
            b"\0\x01\0\x01\x01u\x01s\0\x01b\0",
            48,
            "behind character strings",
        ),
        (
            kind::SOA,
            b"\0\x01b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            40,
            "an SOA's second name",
        ),
    ];
    for (kind, content, target, subject) in valid {
        assert_eq!(
            read_pointing(&pointing(QUESTION_POINTER, kind, content, &[0xC0, target])),
            Ok(()),
            "{subject}"
        );
    }
}

#[test]
fn names_may_not_point_elsewhere() {
    let question = QUESTION_POINTER;
    let alias: &[u8] = b"\x01b\0";
    let invalid = [
        (
            &[0xC0, 4][..],
            kind::CNAME,
            alias,
            question,
            "an owner in the header",
        ),
        (
            question,
            kind::CNAME,
            &[0xC0, 6][..],
            question,
            "an alias in the header",
        ),
        (question, kind::CNAME, alias, &[0xC0, 33][..], "an owner in a TTL"),
        (question, kind::CNAME, alias, &[0xC0, 31], "an owner in a class"),
        (
            question,
            kind::CNAME,
            alias,
            &[0xC0, 13],
            "an owner in the middle of a label",
        ),
        (question, kind::TXT, alias, &[0xC0, 39], "an owner in text"),
        (question, kind::CNAME, &[0xC0, 39], question, "an alias to itself"),
        (
            question,
            kind::CNAME,
            b"\x01b\xC0\x27",
            question,
            "an alias to its own beginning",
        ),
        (
            question,
            kind::CNAME,
            b"\x01b",
            question,
            "an alias that runs into the next record",
        ),
        (
            &[0xC0, 40],
            kind::CNAME,
            alias,
            question,
            "an owner that points forward",
        ),
    ];
    for (owner, kind, content, second, subject) in invalid {
        assert_eq!(
            read_pointing(&pointing(owner, kind, content, second)),
            Err(ResolverResponseError::Malformed),
            "{subject}"
        );
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_parsed_or_rejected(message in proptest::collection::vec(any::<u8>(), 0..600), id: u16) {
        let read = parse_query(&message);
        prop_assert!(ResolverResponse::read(&message, id, &Question::about(name("a.b"), kind::A)).is_err() || message.len() > 12);
        prop_assert!(Records::of(&message).count() <= usize::from(u16::MAX));
        for at in 0..message.len() {
            if let Ok((name, end)) = Name::read(&message, at) {
                prop_assert!(name.as_wire().len() <= 255 && end <= message.len() && end > at);
                prop_assert_eq!(Name::read(name.as_wire(), 0), Ok((name, name.as_wire().len())));
            }
        }
        if let Err(Reject::WithResponse { .. }) = read {
            prop_assert!(message.len() >= HEADER_BYTES);
        }
    }

    #[test]
    fn damaged_query_is_parsed_or_rejected(at in 0usize..60, octet: u8, keep in 0usize..60) {
        let mut message = query("a-service.a-namespace.svc.cluster.local", kind::SRV);
        if let Some(place) = message.get_mut(at) {
            *place = octet;
        }
        message.truncate(keep);
        if let Ok(read) = parse_query(&message) {
            let mut buffer = [0; 512];
            let length = Reply::new(&read, &mut buffer, 512).finish(ResponseCode::NoError);
            prop_assert!((HEADER_BYTES..=512).contains(&length));
        }
    }

    #[test]
    fn damaged_response_stays_within_bounds_or_is_rejected(
        at in 12usize..1_700, octet: u8, keep in 0usize..1_700, limit in 0usize..2_000, ttl: u32
    ) {
        let mut message = many_addresses();
        if let Some(place) = message.get_mut(at) {
            *place = octet;
        }
        message.truncate(keep);
        let sent = Question::about(name("a.example"), kind::A);
        let client = parse_query(&sent.encode(9, Some(1_232))).expect("a query");
        if let Ok(answer) = ResolverResponse::read(&message, 7, &sent) {
            let mut out = [0; 4_096];
            let length = answer.write(&client, &mut out, limit, |_| ttl);
            prop_assert!(length <= limit.max(512) && length >= HEADER_BYTES);
            let again = ResolverResponse::read(&out[..length], 9, &sent);
            prop_assert!(again.is_ok(), "what is given out is well-formed");
            if read_u16(&out, 2).is_some_and(|flags| flags & flag::TRUNCATED == 0) {
                prop_assert_eq!(contents(&out[..length]), contents(answer.message()));
            }
        }
    }
}
