//! Figures of printed lines, and their medians.

use super::{Flags, Values, figures_of, mark, median, row};

#[test]
fn parses_the_numbers_of_a_line() {
    let figures = figures_of("5000 Services in 0.78 s: 6390/s, p99 7.80 ms");
    let values = figures.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    assert_eq!(values, [5000.0, 0.78, 6390.0, 7.8]);
    let (label, position) = &figures[1].0;
    assert_eq!(label, "# Services in # s: #/s, p99 # ms");
    assert_eq!(mark(label, *position), "# Services in [#] s: #/s, p99 # ms");
}

#[test]
fn median_of_an_even_number_is_the_mean_of_the_middle() {
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(&[2.0, 9.0, 1.0]), Some(2.0));
    assert_eq!(median(&[]), None);
}

#[test]
fn row_shows_the_ratio_and_its_spread() {
    let values = Values {
        this: vec![2.0, 4.0, 3.0],
        other: vec![2.0, 2.0, 2.0],
    };
    let shown = row(&values).expect("row");
    assert!(shown.ends_with(": 1.500 (1.00 - 2.00)"), "{shown}");
    let constant = Values {
        this: vec![5.0],
        other: vec![5.0],
    };
    assert_eq!(row(&constant), None);
}

#[test]
fn flags_of_one_side_follow_the_benchmark() {
    let flags = Flags {
        other_build: None,
        rounds: 1,
        this_flags: vec!["--command=a".to_owned()],
        other_flags: vec!["--command=b".to_owned(), "--resyncs=1".to_owned()],
        benchmark: vec!["proxy".to_owned(), "--changes=20".to_owned()],
    };
    let this = flags.arguments(false).collect::<Vec<_>>();
    assert_eq!(this, ["proxy", "--changes=20", "--command=a"]);
    let other = flags.arguments(true).collect::<Vec<_>>();
    assert_eq!(other, ["proxy", "--changes=20", "--command=b", "--resyncs=1"]);
}
