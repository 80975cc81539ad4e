//! Source files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// A Rust file of the workspace.
pub(crate) struct Source {
    /// Path from the root of the workspace.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
}

impl Source {
    /// Returns true if the file holds tests, fixtures or a simulation, and no product code.
    pub(crate) fn is_test(&self) -> bool {
        let is_test_part = |part: &str| {
            matches!(
                part,
                "tests" | "tests.rs" | "fixtures" | "fixtures.rs" | "simulation" | "simulation.rs"
            )
        };
        self.path
            .components()
            .filter_map(|part| part.as_os_str().to_str())
            .any(is_test_part)
    }
}

/// Root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of the workspace's crates below `crates/`, sorted.
pub(crate) fn crate_names() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("crates/ is readable");
    let mut names = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect::<Vec<_>>();
    names.sort();
    names
}

/// All Rust files below a folder of the workspace, sorted by path.
pub(crate) fn rust_files(folder: &str) -> Vec<Source> {
    let root = root();
    let mut folders = vec![root.join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a readable source file");
                let path = path
                    .strip_prefix(&root)
                    .expect("a path below the root")
                    .to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}
