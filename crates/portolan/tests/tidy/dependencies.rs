//! Licenses and sources of the dependencies, by the rules of `deny.toml`.
//!
//! `cargo deny` checks more. This test needs no program but cargo.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::assert_none;
use crate::sources::root;

/// Platform whose dependencies are checked: downloads of other platforms may be missing.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// Registry that packages come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages of the lock file, as `cargo metadata` prints them.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", PLATFORM])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata = serde_json::from_slice::<Value>(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().cloned().unwrap_or_default()
}

/// Licenses that `deny.toml` allows.
fn allowed_licenses() -> BTreeSet<String> {
    let rules = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let list = rules
        .lines()
        .find_map(|line| line.strip_prefix("allow = ["))
        .expect("a list of licenses");
    list.trim_end_matches(']')
        .split(',')
        .map(|license| license.trim().trim_matches('"').to_owned())
        .collect()
}

/// Evaluates an SPDX expression of licenses, `AND`, `OR` and parentheses; `/` is an old form of `OR`.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((before, rest)) = expression.split_once('(')
        && let Some((inner, after)) = rest.split_once(')')
    {
        let value = if is_satisfied(inner, allowed) {
            "TRUE"
        } else {
            "FALSE"
        };
        return is_satisfied(&format!("{before}{value}{after}"), allowed);
    }
    expression.split(" OR ").any(|alternative| {
        alternative
            .split(" AND ")
            .map(str::trim)
            .all(|license| license == "TRUE" || allowed.contains(license))
    })
}

#[test]
fn dependencies_have_allowed_licenses_and_sources() {
    let allowed = allowed_licenses();
    let mut violations = Vec::new();
    let mut registry_packages = 0;
    for package in packages() {
        let Some(source) = package["source"].as_str() else {
            continue;
        };
        registry_packages += 1;
        let name = package["name"].as_str().unwrap_or_default();
        if source != REGISTRY {
            violations.push(format!("{name}: expected a package of crates.io, found {source}"));
        }
        let license = package["license"].as_str().unwrap_or_default();
        if !is_satisfied(license, &allowed) {
            violations.push(format!(
                "{name}: the license {license:?} is not allowed by deny.toml"
            ));
        }
    }
    assert!(
        registry_packages > 100,
        "{registry_packages} packages of the registry"
    );
    assert_none("licenses and sources", &violations);
}

#[test]
fn license_expressions_are_evaluated() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for expression in [
        "MIT",
        "GPL-3.0 OR MIT",
        "Apache-2.0/MIT",
        "(MIT OR GPL-3.0) AND ISC",
    ] {
        assert!(is_satisfied(expression, &allowed), "{expression}");
    }
    for expression in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0"] {
        assert!(!is_satisfied(expression, &allowed), "{expression}");
    }
}
