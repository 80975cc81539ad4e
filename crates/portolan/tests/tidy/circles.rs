//! Circles of files that use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::assert_none;
use crate::paths::named_paths;
use crate::sources::{crate_names, rust_files};

/// Maximum number of files of one circle: a module with its parts.
const CIRCLE_FILES_MAX: usize = 3;

/// Larger circles that are known, with their number of files. The numbers only fall.
const KNOWN: [(&str, usize); 0] = [];

type ModulePath = Vec<String>;
type Graph = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

/// Path of the module that a file below `src` defines.
fn module_path(file: &Path) -> ModulePath {
    let mut path = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    if path
        .last()
        .is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main"))
    {
        path.pop();
    }
    path
}

/// The uses between the modules of a crate. The root of the crate is left out: it re-exports.
fn graph(crate_name: &str) -> Graph {
    let folder = format!("crates/{crate_name}/src");
    let sources = rust_files(&folder)
        .into_iter()
        .filter(|source| !source.is_test())
        .map(|source| {
            let file = source.path.strip_prefix(&folder).expect("a file of the crate");
            (module_path(file), source.text)
        })
        .filter(|(module, _)| !module.is_empty())
        .collect::<BTreeMap<_, _>>();
    let mut graph = Graph::new();
    for (module, text) in &sources {
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let used = named_paths(product)
            .iter()
            .filter_map(|path| resolve(module, path, |module| sources.contains_key(module)))
            .filter(|used| used != module)
            .collect();
        graph.insert(module.clone(), used);
    }
    graph
}

/// The module that a path leads to, seen from another module.
fn resolve(from: &[String], path: &[String], is_module: impl Fn(&[String]) -> bool) -> Option<ModulePath> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    let mut target = match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [from, &path[1..]].concat(),
        _ => [from.get(..from.len().checked_sub(supers)?)?, &path[supers..]].concat(),
    };
    while !target.is_empty() && !is_module(&target) {
        target.pop();
    }
    (!target.is_empty()).then_some(target)
}

/// All modules that can be reached from one.
fn reachable<'graph>(graph: &'graph Graph, from: &'graph ModulePath) -> BTreeSet<&'graph ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for used in graph.get(module).into_iter().flatten() {
            if reached.insert(used) {
                open.push(used);
            }
        }
    }
    reached
}

/// Groups of modules in which each module reaches all others.
fn circles(graph: &Graph) -> BTreeSet<Vec<&ModulePath>> {
    let reached = graph
        .keys()
        .map(|module| (module, reachable(graph, module)))
        .collect::<BTreeMap<_, _>>();
    graph
        .keys()
        .filter(|module| reached[module].contains(*module))
        .map(|module| {
            let others = reached[module].iter().copied();
            others
                .filter(|other| reached.get(other).is_some_and(|back| back.contains(module)))
                .collect()
        })
        .collect()
}

#[test]
fn circles_of_files_stay_small() {
    let mut violations = Vec::new();
    for crate_name in crate_names() {
        for circle in circles(&graph(&crate_name)) {
            if circle.len() > CIRCLE_FILES_MAX && !KNOWN.contains(&(crate_name.as_str(), circle.len())) {
                let names = circle.iter().map(|module| module.join("::")).collect::<Vec<_>>();
                violations.push(format!(
                    "{crate_name}: {} files: {}",
                    names.len(),
                    names.join(", ")
                ));
            }
        }
    }
    assert_none(&format!("at most {CIRCLE_FILES_MAX} files a circle"), &violations);
}

#[test]
fn circle_of_two_modules_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let graph = Graph::from([
        (module("a"), [module("b")].into()),
        (module("b"), [module("a"), module("c")].into()),
        (module("c"), BTreeSet::new()),
    ]);
    let (a, b) = (module("a"), module("b"));
    assert_eq!(circles(&graph), [vec![&a, &b]].into());
}
