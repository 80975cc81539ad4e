use super::*;

#[test]
fn metrics_read_as_the_format_wants_them() {
    let mut text = Text::default();
    text.family("a_total", Counted::Counter);
    text.sample("a_total", "", 3);
    text.family("b_seconds", Counted::Histogram);
    text.histogram("b_seconds", "x=\"y\"", &[0.5, 1.0], &[1, 2, 4], 9.5);
    let expected = "# TYPE a_total counter\na_total 3\n# TYPE b_seconds histogram\n\
        b_seconds_bucket{x=\"y\",le=\"0.5\"} 1\nb_seconds_bucket{x=\"y\",le=\"1\"} 3\n\
        b_seconds_bucket{x=\"y\",le=\"+Inf\"} 7\nb_seconds_sum{x=\"y\"} 9.5\nb_seconds_count{x=\"y\"} 7\n";
    assert_eq!(text.finish(), expected);
}
