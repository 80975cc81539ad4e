use super::*;

#[test]
fn writes_the_text_format() {
    let mut text = MetricsText::default();
    text.single("a_total", MetricType::Counter, "Number of a.", 3);
    text.family("b_seconds", MetricType::Histogram, "Duration of b.");
    text.buckets("b_seconds", "x=\"y\"", &[0.5, 1.0], &[1, 2, 4], 9.5);
    let expected = "# HELP a_total Number of a.\n# TYPE a_total counter\na_total 3\n\
        # HELP b_seconds Duration of b.\n# TYPE b_seconds histogram\n\
        b_seconds_bucket{x=\"y\",le=\"0.5\"} 1\nb_seconds_bucket{x=\"y\",le=\"1\"} 3\n\
        b_seconds_bucket{x=\"y\",le=\"+Inf\"} 7\nb_seconds_sum{x=\"y\"} 9.5\nb_seconds_count{x=\"y\"} 7\n";
    assert_eq!(text.finish(), expected);
}
