use super::*;

#[test]
fn full_log_ends_with_a_notice() {
    let written = AtomicUsize::new(0);
    let line = "x".repeat(999);
    let lines: Vec<_> = (0..1000)
        .filter_map(|_| line_within_limit(&written, &line))
        .collect();
    assert_eq!(lines.len(), 66);
    assert_eq!(lines[65], "sandbox: log full, further errors are not written");
}
