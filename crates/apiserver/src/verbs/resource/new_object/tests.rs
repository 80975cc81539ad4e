use super::*;

#[test]
fn generated_names_fit_a_dns_label() {
    let name = generate_name("web-");
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    assert_eq!(generate_name(&"x".repeat(100)).len(), 63);
    assert!(generate_name(&"é".repeat(40)).starts_with('é'));
}

#[test]
fn times_have_whole_seconds() {
    let time = now();
    assert!(
        time.ends_with('Z') && time.len() == "2026-01-01T00:00:00Z".len(),
        "{time}"
    );
}
