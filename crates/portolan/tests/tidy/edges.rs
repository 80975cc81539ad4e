//! Dependencies between crates, as ARCHITECTURE.md draws them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::assert_none;
use crate::sources::{crate_names, root};

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Section of a manifest with the dependencies of the product code.
const DEPENDENCIES: &str = "[dependencies]";
/// Line before the table of crates in ARCHITECTURE.md.
const TABLE_START: &str = "<!-- crate edges -->";

/// Reads `[dependencies]` of each crate and keeps those on crates of the workspace.
fn declared_edges() -> Edges {
    let names = crate_names();
    let read = |name: &String| {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        let used = manifest
            .lines()
            .skip_while(|line| *line != DEPENDENCIES)
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter(|used| names.iter().any(|name| name == used))
            .map(str::to_owned)
            .collect();
        (name.clone(), used)
    };
    names.iter().map(read).collect()
}

/// Reads the table `| crate | uses |` of ARCHITECTURE.md.
fn drawn_edges() -> Edges {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    page.lines()
        .skip_while(|line| *line != TABLE_START)
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .filter_map(|line| {
            let cells = line.trim_matches('|').split('|').collect::<Vec<_>>();
            let name = cells.first()?.trim().trim_matches('`').to_owned();
            let used = cells
                .get(1)?
                .split(',')
                .map(|used| used.trim().trim_matches('`').to_owned());
            Some((
                name,
                used.filter(|used| !used.is_empty() && used != "–").collect(),
            ))
        })
        .collect()
}

#[test]
fn crates_depend_as_the_architecture_draws_them() {
    let (declared, drawn) = (declared_edges(), drawn_edges());
    let pairs = |edges: &Edges| {
        edges
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |to| (from.clone(), to.clone())))
            .collect::<BTreeSet<_>>()
    };
    let (declared_pairs, drawn_pairs) = (pairs(&declared), pairs(&drawn));
    let mut violations = declared_pairs
        .difference(&drawn_pairs)
        .map(|(from, to)| format!("{from} uses {to}, which ARCHITECTURE.md does not draw"))
        .collect::<Vec<_>>();
    let undeclared = drawn_pairs.difference(&declared_pairs);
    violations.extend(
        undeclared.map(|(from, to)| format!("ARCHITECTURE.md draws {from} → {to}, which no manifest has")),
    );
    let missing = declared.keys().filter(|name| !drawn.contains_key(*name));
    violations.extend(missing.map(|name| format!("ARCHITECTURE.md does not list {name}")));
    assert_none("crate edges", &violations);
}
