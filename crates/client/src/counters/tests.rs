use super::*;

#[test]
fn requests_are_counted_by_method_and_code() {
    let counters = Counters::default();
    counters.count(&Method::GET, Some(200), Duration::from_millis(7));
    counters.count(&Method::GET, None, Duration::from_secs(20));
    counters.count(&Method::POST, Some(201), Duration::ZERO);
    let requests = counters.read();
    let get = |code| requests.ended.get(&("GET".to_owned(), code));
    assert_eq!(
        (get(Some(200)), get(None), get(Some(404))),
        (Some(&1), Some(&1), None)
    );
    let durations = requests.durations.get("GET").expect("counted");
    assert_eq!(durations.counts, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert!((durations.sum_seconds - 20.007).abs() < 1e-9);
}
