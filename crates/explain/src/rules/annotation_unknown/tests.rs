use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;

#[test]
fn known_annotations_match_the_reference() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |page: &str| fs::read_to_string(docs.join(page)).expect("a page");
    let is_name = |character: char| character.is_ascii_alphanumeric() || "./-".contains(character);
    let documented: BTreeSet<String> = read("load-balancer/reference.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| row.split('`').next())
        .filter(|name| name.starts_with("portolan.dev/") && name.chars().all(is_name))
        .filter(|name| {
            name.chars()
                .skip("portolan.dev/".len())
                .all(|character| !character.is_uppercase())
        })
        .map(str::to_owned)
        .collect();
    let of_balancer: BTreeSet<String> = KNOWN
        .iter()
        .filter(|name| name.starts_with("portolan.dev/"))
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(of_balancer, documented);
    let proxy = read("proxy.md");
    for name in KNOWN
        .iter()
        .filter(|name| name.starts_with("service.portolan.dev/"))
    {
        assert!(proxy.contains(name), "docs/proxy.md lacks {name}");
    }
}
