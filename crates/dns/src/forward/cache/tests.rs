use super::*;
use crate::wire::{Name, NameRef, Question, Reply, ResponseCode, Section, kind, parse_query};

/// An answer with an address for `seconds`.
fn success(seconds: u32) -> Arc<ResolverResponse> {
    let question = Question::about(Name::from_text("a.b").expect("a name"), kind::A);
    let query = parse_query(&question.encode(7, None)).expect("a query");
    let mut buffer = [0; 512];
    let mut reply = Reply::new(&query, &mut buffer, 512);
    reply
        .address(Section::Answer, NameRef::QUESTION, seconds, [192, 0, 2, 1].into())
        .expect("space for the record");
    let length = reply.finish(ResponseCode::NoError);
    Arc::new(ResolverResponse::read(&buffer[..length], 7, &question).expect("an answer"))
}

fn failure() -> Arc<ResolverResponse> {
    let question = Question::about(Name::from_text("a.b").expect("a name"), kind::A);
    Arc::new(ResolverResponse::no_response(&question))
}

/// Result of a lookup: `-` miss, `f` fresh, `F` fresh with prefetch, `s` stale, `S` stale after a failure.
fn outcome_at(cache: &Cache, at: u32) -> char {
    match cache.get(b"key", CacheSecond(at)) {
        CacheLookup::Miss => '-',
        CacheLookup::Fresh { prefetch: false, .. } => 'f',
        CacheLookup::Fresh { prefetch: true, .. } => 'F',
        CacheLookup::Stale(_) => 's',
        CacheLookup::StaleAfterFailure(_) => 'S',
    }
}

#[test]
fn entry_expires_after_its_ttl_and_becomes_stale() {
    let cache = Cache::new(CacheSettings {
        stale_seconds_max: 100,
        prefetch: false,
        ..CacheSettings::default()
    });
    assert_eq!(outcome_at(&cache, 0), '-');
    cache.put(b"key", success(60), CacheSecond(10));
    let CacheLookup::Fresh { answer, .. } = cache.get(b"key", CacheSecond(30)) else {
        panic!("it is fresh");
    };
    assert_eq!((answer.ttl(60), answer.ttl(500), answer.ttl(10)), (40, 40, 0));
    assert_eq!(
        [69, 70, 169, 170].map(|at| outcome_at(&cache, at)),
        ['f', 's', 's', '-']
    );
    let CacheLookup::Stale(answer) = cache.get(b"key", CacheSecond(100)) else {
        panic!("it is stale");
    };
    assert_eq!(answer.ttl(60), STALE_TTL_SECONDS);
    cache.record_failure(b"key", CacheSecond(100));
    assert_eq!([100, 129, 130].map(|at| outcome_at(&cache, at)), ['S', 'S', 's']);
}

#[test]
fn failure_is_cached_briefly_and_never_replaces_an_answer() {
    let cache = Cache::new(CacheSettings::default());
    cache.put(b"key", failure(), CacheSecond(0));
    assert_eq!([0, 1].map(|at| outcome_at(&cache, at)), ['f', '-']);
    cache.put(b"key", success(60), CacheSecond(2));
    cache.put(b"key", failure(), CacheSecond(70));
    assert_eq!(outcome_at(&cache, 70), 'S', "the answer is still there");
    assert_eq!(
        (
            cache.entries(EntryKind::Success),
            cache.entries(EntryKind::Denial)
        ),
        (1, 0)
    );
}

#[test]
fn frequent_entry_is_prefetched_once() {
    let cache = Cache::new(CacheSettings::default());
    cache.put(b"key", success(60), CacheSecond(0));
    let outcomes: String = [1, 2, 53, 54, 55]
        .map(|at| outcome_at(&cache, at))
        .iter()
        .collect();
    assert_eq!(outcomes, "fffFf");
    cache.record_failure(b"key", CacheSecond(56));
    assert_eq!(
        outcome_at(&cache, 57),
        'F',
        "after a failure another client may try"
    );
}

#[test]
fn uncacheable_responses_are_not_stored() {
    let cache = Cache::new(CacheSettings::default());
    cache.put(b"key", success(0), CacheSecond(0));
    assert_eq!(outcome_at(&cache, 0), '-');
    let none = Cache::new(CacheSettings {
        bytes_max: 0,
        ..CacheSettings::default()
    });
    none.put(b"key", success(60), CacheSecond(0));
    assert_eq!(outcome_at(&none, 0), '-');
}

#[test]
fn size_is_bounded_and_used_entries_stay() {
    let cache = Cache::new(CacheSettings {
        bytes_max: 1 << 20,
        ..CacheSettings::default()
    });
    for number in 0..20_000u32 {
        cache.put(&number.to_be_bytes(), success(1_000), CacheSecond(number / 100));
        cache.get(&7u32.to_be_bytes(), CacheSecond(number / 100));
        assert!(cache.bytes() <= 1 << 20);
    }
    assert!(cache.evictions() > 10_000);
    assert_eq!(cache.entries(EntryKind::Success) + cache.evictions(), 20_000);
    assert!(matches!(
        cache.get(&7u32.to_be_bytes(), CacheSecond(200)),
        CacheLookup::Fresh { .. }
    ));
}
