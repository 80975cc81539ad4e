//! Pages of the documentation: table of contents, links and named source files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::assert_none;
use crate::sources::{root, rust_files};

/// Folder of the book.
const BOOK: &str = "docs";
/// Table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Prefixes of links that leave the tree.
const REMOTE_LINKS: [&str; 3] = ["http://", "https://", "mailto:"];
/// Folders of source files that pages name.
const SOURCE_FOLDERS: [&str; 4] = ["bench", "crates", "fuzz", "tools"];

/// A Markdown file of the workspace.
struct Page {
    /// Path from the root of the workspace.
    path: PathBuf,
    text: String,
}

/// Paths in a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let mut paths = entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect::<Vec<_>>();
    paths.sort();
    paths
}

/// Pages of the root folder and of the book.
fn pages() -> Vec<Page> {
    let root = root();
    let mut paths = entries(&root);
    paths.retain(|path| path.is_file());
    let mut folders = vec![root.join(BOOK)];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else {
                paths.push(path);
            }
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: PathBuf| Page {
        text: fs::read_to_string(&path).expect("a readable page"),
        path: path
            .strip_prefix(&root)
            .expect("a path below the root")
            .to_owned(),
    };
    paths.into_iter().map(read).collect()
}

/// Lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Targets of the links of a page. Code spans are skipped.
fn links(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in prose(text) {
        let visible = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in visible.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                targets.push(target.to_owned());
            }
        }
    }
    targets
}

/// Names of Rust files in the code spans of a page.
fn source_names(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|span| span.ends_with(".rs"))
}

/// Anchor of a heading, as GitHub and mdBook derive it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Anchors of the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

/// Returns the reason why a link does not resolve.
fn fault(page: &Page, link: &str) -> Option<String> {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let page_path = root().join(&page.path);
    let target = match file {
        "" => page_path,
        file => page_path.with_file_name("").join(file),
    };
    if !target.exists() {
        return Some("no such file".to_owned());
    }
    if heading.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&target).ok()?;
    (!anchors(&text).contains(heading)).then(|| "no such heading".to_owned())
}

#[test]
fn links_between_pages_resolve() {
    let mut violations = Vec::new();
    for page in pages() {
        for link in links(&page.text) {
            let is_remote = REMOTE_LINKS.iter().any(|start| link.starts_with(start));
            if !is_remote && let Some(fault) = fault(&page, &link) {
                violations.push(format!("{}: {link}: {fault}", page.path.display()));
            }
        }
    }
    assert_none("links", &violations);
}

#[test]
fn table_of_contents_has_every_page() {
    let summary = fs::read_to_string(root().join(SUMMARY)).expect(SUMMARY);
    let listed = links(&summary)
        .iter()
        .map(|link| Path::new(BOOK).join(link))
        .collect::<BTreeSet<_>>();
    let violations = pages()
        .iter()
        .filter(|page| page.path.starts_with(BOOK) && page.path != Path::new(SUMMARY))
        .filter(|page| !listed.contains(&page.path))
        .map(|page| format!("{SUMMARY} does not list {}", page.path.display()))
        .collect::<Vec<_>>();
    assert_none("table of contents", &violations);
}

#[test]
fn named_source_files_exist() {
    let files = SOURCE_FOLDERS
        .iter()
        .flat_map(|folder| rust_files(folder))
        .map(|source| source.path)
        .collect::<Vec<_>>();
    let mut violations = Vec::new();
    for page in pages() {
        for name in source_names(&page.text) {
            if !files.iter().any(|file| file.ends_with(name)) {
                violations.push(format!("{}: {name}", page.path.display()));
            }
        }
    }
    assert_none("source files that pages name", &violations);
}

#[test]
fn links_and_anchors_are_read_from_prose() {
    let text = "# The `a` of b\n[x](y.md#z), `[no](no)`\n```\n[no](no)\n# no\n```\n[`c`](../d)\n";
    assert_eq!(links(text), ["y.md#z", "../d"]);
    assert_eq!(anchors(text), BTreeSet::from(["the-a-of-b".to_owned()]));
}
