use bytes::Bytes;

use super::*;

#[test]
fn short_pages_of_selected_objects_are_read_in_long_steps() {
    assert_eq!(keys_per_read(Some(1), false), Some(SELECTED_READ_KEYS_MIN));
    let longer = SELECTED_READ_KEYS_MIN + 1;
    assert_eq!(keys_per_read(Some(longer), false), Some(longer));
    assert_eq!(keys_per_read(None, false), None);
}

#[test]
fn pages_of_all_objects_are_read_as_requested() {
    assert_eq!(keys_per_read(Some(1), true), Some(1));
    assert_eq!(keys_per_read(None, true), None);
}

const REVISION: Revision = Revision(7);

/// Returns two of the ten keys `0` to `9` behind a key.
fn read(after: &str) -> Listing {
    let keys = (0..10).map(|number| number.to_string());
    let behind: Vec<String> = keys.filter(|key| key.as_str() > after).collect();
    let entry = |key: &String| Entry {
        key: key.as_str().into(),
        value: Bytes::new(),
        created: REVISION,
        modified: REVISION,
    };
    Listing {
        entries: behind.iter().take(2).map(entry).collect(),
        revision: REVISION,
        remaining: behind.len().saturating_sub(2),
    }
}

/// Returns the keys of each page.
fn pages(limit: Option<usize>, is_selected: impl Fn(u8) -> bool) -> Vec<String> {
    let is_selected = |entry: &Entry| is_selected(entry.key.parse().expect("a number"));
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let read_more = |revision: Revision, after: &str| {
            assert_eq!(revision, REVISION);
            Ok(read(after))
        };
        let page = selected_page(read(&after), limit, is_selected, read_more).expect("a page");
        assert_eq!((page.revision, page.remaining), (REVISION, None));
        let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
        pages.push(keys.concat());
        if page.continue_token.is_none() {
            return pages;
        }
        after = (*keys.last().expect("an entry before others")).to_owned();
    }
}

#[test]
fn page_of_selected_objects_joins_reads_until_it_is_full() {
    let is_odd = |number: u8| number % 2 == 1;
    assert_eq!(pages(None, is_odd), ["13579"]);
    assert_eq!(pages(Some(2), is_odd), ["13", "57", "9"]);
    assert_eq!(pages(Some(5), is_odd), ["13579"]);
    assert_eq!(pages(Some(3), |_| false), [""]);
}

#[test]
fn selected_object_behind_a_full_page_is_on_the_next_page() {
    assert_eq!(pages(Some(3), |_| true), ["012", "345", "678", "9"]);
    assert_eq!(pages(Some(1), |number| number > 7), ["8", "9"]);
}

/// Upstream: apiserver/pkg/storage/etcd3/store.go, `GetList`.
#[test]
fn full_page_has_a_next_one_if_keys_remain() {
    assert_eq!(pages(Some(1), |number| number == 0), ["0", ""]);
    assert_eq!(pages(Some(1), |number| number == 9), ["9"]);
    assert_eq!(pages(Some(2), |number| number < 2), ["01", ""]);
}
