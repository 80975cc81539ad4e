//! Random archives against a model of a file system, and random bytes.

use std::collections::BTreeMap;

use super::*;

/// Entry of a random archive. Names are few, so that entries collide.
#[derive(Clone, Debug)]
enum Step {
    File(String, String),
    Directory(String),
    Symlink(String),
    HardLink(String, String),
    Whiteout(String),
}

/// File of the model. Hard links to one file have the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(String),
    Directory,
    Symlink,
    Whiteout,
}

const SYMLINK_TARGET: &str = "../outside";

fn path() -> impl Strategy<Value = String> {
    "[ab](/[ab]){0,2}"
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (path(), "[xyz]{0,3}").prop_map(|(path, content)| Step::File(path, content)),
        path().prop_map(Step::Directory),
        path().prop_map(Step::Symlink),
        (path(), path()).prop_map(|(path, target)| Step::HardLink(path, target)),
        path().prop_map(Step::Whiteout),
    ]
}

/// Applies a step to the model. Returns `false` if the archive must be refused.
fn apply(model: &mut BTreeMap<String, Node>, step: &Step) -> bool {
    let (Step::File(path, _)
    | Step::Directory(path)
    | Step::Symlink(path)
    | Step::HardLink(path, _)
    | Step::Whiteout(path)) = step;
    let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
    for at in slashes {
        match model.get(&path[..at]) {
            None | Some(Node::Whiteout) => {
                model.insert(path[..at].to_owned(), Node::Directory);
            }
            Some(Node::Directory) => {}
            Some(_) => return false,
        }
    }
    let existing = model.get(path).cloned();
    let node = match step {
        Step::File(_, content) => Node::File(content.clone()),
        Step::Directory(_) => Node::Directory,
        Step::Symlink(_) => Node::Symlink,
        Step::Whiteout(_) => {
            model.entry(path.clone()).or_insert(Node::Whiteout);
            return true;
        }
        Step::HardLink(_, target) => {
            let file = model.get(target).cloned();
            match file {
                Some(node @ (Node::File(_) | Node::Symlink)) if !target.starts_with(&format!("{path}/")) => {
                    node
                }
                _ => return false,
            }
        }
    };
    if existing == Some(Node::Directory) && node != Node::Directory {
        model.retain(|other, _| !other.starts_with(&format!("{path}/")));
    }
    model.insert(path.clone(), node);
    true
}

fn archive(steps: &[Step]) -> Vec<u8> {
    let mut layer = LayerBuilder::new();
    for step in steps {
        layer = match step {
            Step::File(path, content) => layer.file(path, content),
            Step::Directory(path) => layer.directory(path),
            Step::Symlink(path) => layer.symlink(path, SYMLINK_TARGET),
            Step::HardLink(path, target) => layer.hard_link(path, target),
            Step::Whiteout(path) => match path.rsplit_once('/') {
                Some((parent, name)) => layer.file(&format!("{parent}/.wh.{name}"), ""),
                None => layer.file(&format!(".wh.{path}"), ""),
            },
        };
    }
    layer.finish()
}

/// Reads the unpacked files back.
fn read_back(root: &Path, below: &str, found: &mut BTreeMap<String, Node>) {
    for entry in fs::read_dir(root.join(below)).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = String::from_utf8(entry.file_name().as_bytes().to_vec()).expect("text");
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let metadata = fs::symlink_metadata(root.join(&path)).expect("metadata");
        let kind = metadata.file_type();
        let node = if kind.is_dir() {
            read_back(root, &path, found);
            Node::Directory
        } else if kind.is_symlink() {
            Node::Symlink
        } else if kind.is_char_device() {
            Node::Whiteout
        } else {
            Node::File(fs::read_to_string(root.join(&path)).expect("a file"))
        };
        found.insert(path, node);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn random_archives_unpack_as_the_model(steps in proptest::collection::vec(step(), 0..12)) {
        let mut model = BTreeMap::new();
        let is_accepted = steps.iter().all(|step| apply(&mut model, step));
        let destination = Destination::new();
        let unpacked = destination.unpack(&archive(&steps));
        prop_assert_eq!(unpacked.is_ok(), is_accepted, "{:?}", unpacked);
        if is_accepted {
            let mut found = BTreeMap::new();
            read_back(&destination.root(), "", &mut found);
            prop_assert_eq!(found, model);
        }
    }

    #[test]
    fn changed_bytes_never_write_outside(
        steps in proptest::collection::vec(step(), 1..6),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut layer = archive(&steps);
        for (at, byte) in changes {
            let at = at.index(layer.len());
            layer[at] = byte;
            // A header with the right checksum reaches more code.
            let block = at / 512 * 512;
            let mut header = Header::from_byte_slice(&layer[block..block + 512]).clone();
            header.set_cksum();
            layer[block..block + 512].copy_from_slice(header.as_bytes());
        }
        // The destination asserts that nothing outside has changed.
        drop(Destination::new().unpack(&layer));
    }
}
