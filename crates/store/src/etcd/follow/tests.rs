use bytes::Bytes;

use super::*;

#[test]
fn differences_keep_their_revisions() {
    let entry = |key: &str, modified| Entry {
        key: key.into(),
        value: Bytes::new(),
        created: Revision(1),
        modified: Revision(modified),
    };
    let commits = |changed, gone: &[&str]| -> Vec<(u64, usize)> {
        let gone = gone.iter().map(|key| Key::from(*key)).collect();
        let commits = differences(changed, gone, Revision(9));
        commits
            .iter()
            .map(|commit| (commit.revision.0, commit.changes.len()))
            .collect()
    };
    assert_eq!(commits(vec![], &["/a"]), [(9, 1)]);
    assert_eq!(
        commits(vec![entry("/b", 9), entry("/a", 7), entry("/c", 7)], &["/d"]),
        [(7, 2), (9, 2)]
    );
    assert_eq!(commits(vec![entry("/a", 7)], &[]), [(7, 1), (9, 0)]);
}
