use super::*;

#[test]
fn log_ends_with_a_word_of_that() {
    let written = AtomicUsize::new(0);
    let line = "x".repeat(999);
    let lines: Vec<_> = (0..1000).filter_map(|_| bounded(&written, &line)).collect();
    assert_eq!(lines.len(), 66);
    assert_eq!(lines[65], "sandbox: this log is full; no more is written to it");
}
