use super::*;

#[test]
fn statusz_shows_start_and_uptime() {
    let started: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
    let now: Timestamp = "2026-02-04T05:15:07Z".parse().unwrap();
    assert_eq!(Pages::default().statusz(started, now), None);
    let pages = Pages {
        statusz: true,
        flagz: None,
    };
    let page = pages.statusz(started, now).unwrap();
    assert!(page.starts_with("\nkube-proxy statusz\nWarning: "), "{page}");
    assert!(
        page.contains("\nStarted: Tue Feb  3 04:05:06 UTC 2026\nUp: 25 hr 10 min 01 sec\n"),
        "{page}"
    );
    // A clock that was set back gives a plausible uptime.
    assert!(
        pages
            .statusz(now, started)
            .unwrap()
            .contains("\nUp: 0 hr 00 min 00 sec\n")
    );
}

#[test]
fn flagz_lists_flags_in_order() {
    assert_eq!(Pages::default().flagz(), None);
    let flag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let pages = Pages {
        statusz: false,
        flagz: Some(vec![flag("v", "2"), flag("cleanup", "false")]),
    };
    let page = pages.flagz().unwrap();
    assert!(page.starts_with("\nkube-proxy flagz\nWarning: "), "{page}");
    assert!(page.ends_with("\n\ncleanup=false\nv=2\n"), "{page}");
}
