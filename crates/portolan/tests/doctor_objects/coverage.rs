//! Page with the ways in which the fault of each code is planted in tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::plant::{Fault, Healthy, WorldPlace, read};

/// Environment variable that makes the test write the page.
const WRITE: &str = "PORTOLAN_WRITE_PAGES";
/// Prefix of codes, and number of their digits.
const PREFIX: &str = "PTL-";
const DIGITS: usize = 4;

/// Numbers of planted faults of a code.
#[derive(Clone, Copy, Debug, Default)]
struct Planted {
    objects: usize,
    observations: usize,
    node: usize,
    standalone: usize,
    cluster: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str) -> Vec<String> {
    let folder = root().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.is_file());
    files
        .map(|path| fs::read_to_string(path).expect("a text"))
        .collect()
}

/// Counts the faults of `explain`, which are objects or contain observations.
fn count_worlds(planted: &mut BTreeMap<String, Planted>) {
    for text in files("crates/explain/tests/worlds/faults") {
        let faults: Vec<Value> = serde_saphyr::from_multiple(&text).expect("faults");
        for fault in faults {
            let code = fault["code"].as_str().expect("a code");
            let base = fault["base"].as_str().unwrap_or_default();
            let applied = fault["apply"].as_array().into_iter().flatten();
            let mut kinds = applied.map(|object| &object["kind"]);
            let is_observed = base.starts_with("observed-") || kinds.any(|kind| kind == "NodeObservation");
            let entry = planted.entry(code.to_owned()).or_default();
            if is_observed {
                entry.observations += 1;
            } else {
                entry.objects += 1;
            }
        }
    }
}

/// Returns a source text without its ignored tests. The code is formatted, so a test ends at the first line that is
/// `}`.
fn without_ignored_tests(text: &str) -> String {
    let mut is_ignored = false;
    let mut kept = String::new();
    for line in text.lines() {
        is_ignored |= line.starts_with("#[ignore");
        if !is_ignored {
            kept.push_str(line);
            kept.push('\n');
        }
        is_ignored &= line != "}";
    }
    kept
}

/// Counts the expected codes in the tests of nodes.
fn count_node(planted: &mut BTreeMap<String, Planted>) {
    for text in files("crates/portolan/tests/doctor_node") {
        let text = without_ignored_tests(&text);
        for (position, _) in text.match_indices(PREFIX) {
            let code = text
                .get(position..position + PREFIX.len() + DIGITS)
                .unwrap_or_default();
            planted.entry(code.to_owned()).or_default().node += 1;
        }
    }
}

/// Counts the faults that are planted in API servers.
fn count_servers(planted: &mut BTreeMap<String, Planted>) {
    for fault in read::<Fault>("faults.yaml") {
        let entry = planted.entry(fault.code.clone()).or_default();
        if !fault.rejected && fault.is_in(WorldPlace::Standalone) {
            entry.standalone += 1;
        }
        if !fault.rejected && fault.is_in(WorldPlace::Cluster) {
            entry.cluster += 1;
        }
    }
}

fn page() -> String {
    let mut planted: BTreeMap<String, Planted> = BTreeMap::new();
    count_worlds(&mut planted);
    count_node(&mut planted);
    count_servers(&mut planted);
    let healthy = files("crates/explain/tests/worlds/healthy").len();
    let in_servers = read::<Healthy>("healthy.yaml").len();
    let mut page = format!(
        "# Planted faults\n\n\
         Tests plant the fault of each [finding](findings.md) and require that its code is the first finding. The table shows the number of faults of a code that are\n\
         planted in each way; ignored tests do not count. In {healthy} healthy worlds of objects and observations, and in {in_servers} that run in API servers, nothing is found.\n\n\
         | Column | Faults | Test |\n|---|---|---|\n\
         | Objects | in the objects of a file | `crates/explain/tests/worlds` |\n\
         | Observations | in recorded observations of nodes, beside objects | `crates/explain/tests/worlds` |\n\
         | Node | in the kernel, in processes and in the network of nodes in network namespaces | `crates/portolan/tests/doctor_node` |\n\
         | API server | in Portolan's API server, with its controllers | `crates/portolan/tests/doctor_objects` |\n\
         | Cluster | in a cluster of Kubernetes with kube-proxy | `crates/portolan/tests/doctor_objects` |\n\n\
         API servers reject the fault of PTL-0007, so it exists in manifests only.\n\n\
         | Code | Objects | Observations | Node | API server | Cluster |\n|---|---|---|---|---|---|\n"
    );
    for (code, planted) in planted {
        let numbers = [
            planted.objects,
            planted.observations,
            planted.node,
            planted.standalone,
            planted.cluster,
        ];
        let cells = numbers.map(|number| match number {
            0 => "–".to_owned(),
            number => number.to_string(),
        });
        let link = code.to_lowercase();
        page.push_str(&format!(
            "| [{code}](findings.md#{link}) | {} |\n",
            cells.join(" | ")
        ));
    }
    page
}

#[test]
fn ignored_tests_do_not_count() {
    let text = "#[test]\nfn one() {\n    if PTL {\n    }\n}\n\n#[test]\n#[ignore = \"why\"]\nfn two() {\n    {\n    }\n}\nfn three() {}\n";
    let kept = "#[test]\nfn one() {\n    if PTL {\n    }\n}\n\n#[test]\nfn three() {}\n";
    assert_eq!(without_ignored_tests(text), kept);
}

#[test]
fn coverage_page_equals_the_tests() {
    let path = root().join("docs/doctor-coverage.md");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, page()).expect("a page");
    }
    let text = fs::read_to_string(&path).expect("docs/doctor-coverage.md");
    assert_eq!(
        text,
        page(),
        "docs/doctor-coverage.md differs: {WRITE}=1 cargo test -p portolan --test doctor_objects writes it"
    );
}
