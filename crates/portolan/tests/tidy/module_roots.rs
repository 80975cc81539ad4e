//! Place of the root file of a module.

use std::path::{Path, PathBuf};

use crate::assert_none;
use crate::sources::rust_files;

/// Returns true if a module's folder holds modules other than its tests.
fn has_parts(folder: &Path, files: &[PathBuf]) -> bool {
    files.iter().any(|file| {
        file.strip_prefix(folder)
            .is_ok_and(|rest| rest != Path::new("tests.rs") && !rest.starts_with("tests"))
    })
}

/// Returns the root files that lie beside the folder of their parts.
fn misplaced(files: &[PathBuf]) -> Vec<String> {
    files
        .iter()
        .filter(|file| has_parts(&file.with_extension(""), files))
        .map(|file| format!("{}: expected mod.rs in the folder of its parts", file.display()))
        .collect()
}

#[test]
fn roots_of_modules_lie_in_the_folder_of_their_parts() {
    let files = ["crates", "bench"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .map(|source| source.path)
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .collect::<Vec<_>>();
    assert_none("one place for the root of a module", &misplaced(&files));
}

#[test]
fn root_beside_the_folder_of_its_parts_is_found() {
    let files = [
        "src/a.rs",
        "src/a/tests.rs",
        "src/b.rs",
        "src/b/part.rs",
        "src/c/mod.rs",
        "src/c/part.rs",
    ]
    .map(PathBuf::from);
    assert_eq!(
        misplaced(&files),
        ["src/b.rs: expected mod.rs in the folder of its parts"]
    );
}
