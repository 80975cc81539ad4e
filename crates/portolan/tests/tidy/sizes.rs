//! Length of source files. Clippy checks the length of functions (`clippy.toml`).

use crate::assert_none;
use crate::sources::rust_files;

/// Maximum number of lines of a file of one idea.
const FILE_LINES_MAX: usize = 700;

#[test]
fn files_stay_below_the_line_limit() {
    let violations = ["crates", "bench", "fuzz/fuzz_targets"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .filter_map(|source| {
            let lines = source.text.lines().count();
            (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", source.path.display()))
        })
        .collect::<Vec<_>>();
    assert_none(&format!("at most {FILE_LINES_MAX} lines a file"), &violations);
}
